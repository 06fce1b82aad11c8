"""Where a database is: libpq URLs, and the one that the embedded server was last started at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

# Names no server: settings can be imported before there is one, and nothing can be reached by accident.
NOWHERE = "postgresql://openwop@127.0.0.1:1/openwop"


def url_file(data_dir: Path) -> Path:
    return data_dir / "secrets" / "database_url"


def recorded_url(data_dir: Path) -> str | None:
    """The URL of the cluster under `data_dir` as of its last start. Whether it runs is not looked at."""
    try:
        return url_file(data_dir).read_text("ascii").strip()
    except OSError:
        return None


def django_settings(url: str, *, application_name: str) -> dict[str, Any]:
    """The URL as an entry of Django's DATABASES; what Django has no name for goes into OPTIONS."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    return {
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "OPTIONS": {"application_name": application_name, **parts},
    }
