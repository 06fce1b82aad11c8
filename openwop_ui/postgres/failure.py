class Failure(Exception):
    """The embedded PostgreSQL cannot be had. The text names the file or folder and what to do about it."""
