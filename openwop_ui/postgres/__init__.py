"""An embedded PostgreSQL under the project's data folder: found, created, started, joined and stopped.

Knows nothing of Django, and of the rest of the project only how a secret is kept in a file.
"""

from openwop_ui.postgres.failure import Failure
from openwop_ui.postgres.server import ensure, exists, revive, stop

__all__ = ["Failure", "ensure", "exists", "revive", "stop"]
