"""What the settings promise to a browser, and what they make of the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import path

ROOT = Path(__file__).resolve().parents[2]
PRINT = """
import json, sys
from openwop_ui import settings
print(json.dumps({name: getattr(settings, name) for name in sys.argv[1:]}, default=str))
"""


def settings_under(tmp_path: Path, names: list[str], **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PRINT, *names],
        cwd=ROOT,
        env={"PATH": os.defpath, "DATA_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    read: dict[str, Any] = json.loads(done.stdout)
    return read


urlpatterns = [path("page", lambda request: HttpResponse("page"))]


@override_settings(ROOT_URLCONF=__name__)
def test_pages_run_nothing_but_the_site_s_own_files(client: Client) -> None:
    headers = client.get("/page").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert {"script-src", "style-src", "script-src-elem"}.isdisjoint(policy)  # default-src governs them
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"


def test_https_is_all_or_nothing(tmp_path: Path) -> None:
    names = ["SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT", "SECURE_PROXY_SSL_HEADER"]
    assert not any(settings_under(tmp_path, names).values())
    assert all(settings_under(tmp_path, names, HTTPS="1").values())


def test_settings_need_no_database_and_remember_no_address_of_one(tmp_path: Path) -> None:
    read = settings_under(tmp_path, ["DATABASES"])
    assert read["DATABASES"]["default"]["PORT"] == "1"
    assert not (tmp_path / "postgres").exists()


def test_database_url_is_split_with_its_options(tmp_path: Path) -> None:
    url = "postgresql://us%40er:p%2Fw@db.example:6432/name?sslmode=verify-full&connect_timeout=5"
    database = settings_under(tmp_path, ["DATABASES"], DATABASE_URL=url)["DATABASES"]["default"]
    assert {name: database[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")} == {
        "NAME": "name",
        "USER": "us@er",
        "PASSWORD": "p/w",
        "HOST": "db.example",
        "PORT": "6432",
    }
    assert database["OPTIONS"]["sslmode"] == "verify-full"
    assert database["OPTIONS"]["connect_timeout"] == "5"


@pytest.mark.parametrize(
    ("url", "backend"),
    [("", "channels.layers.InMemoryChannelLayer"), ("redis://r:6379", "channels_redis.core.RedisChannelLayer")],
)
def test_channel_layer_is_redis_only_where_one_is_named(tmp_path: Path, url: str, backend: str) -> None:
    layers = settings_under(tmp_path, ["CHANNEL_LAYERS"], CHANNEL_LAYER_URL=url)["CHANNEL_LAYERS"]
    assert layers["default"]["BACKEND"] == backend


def test_a_refused_variable_ends_a_command_with_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={"PATH": os.defpath, "DATA_DIR": str(tmp_path), "DEBUG": "perhaps"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ("error: DEBUG is 'perhaps', which is neither 1 (true, yes, on) nor 0 (false, no, off)\n")
