"""How much is read, and the error that names the limit that was met."""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes. `max_body_bytes` counts after decompression."""

    max_event_bytes: int = 10 * MEBIBYTE
    max_body_bytes: int = 1024 * MEBIBYTE


DEFAULT_LIMITS = Limits()


class LimitExceeded(ValueError):
    """`name` is the limit's name as an operator knows it, `limit` its value in bytes."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"more than {name} ({limit} bytes)")
        self.name = name
        self.limit = limit
