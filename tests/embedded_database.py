"""A pytest plugin: an environment and a database for the test run, before Django's settings are read.

DATABASE_URL is used when it is given. Otherwise a cluster under `.data-test` is started, and stopped at the
end; it is kept between runs, so that only the first one pays for making it. Nothing else is taken over from
the environment, and the data of a running site is never touched.

With `-n`, the process that hands out the tests has the cluster; each worker makes a database of its own in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openwop_ui import environment, postgres

DATA_DIR = Path(__file__).resolve().parent.parent / ".data-test"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
TAKEN_OVER = {"DATABASE_URL"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests() -> Iterator[None]:
    # A wrapper, because pytest-django reads the settings in this same hook.
    for variable in environment.VARIABLES:
        if variable.name not in TAKEN_OVER:
            os.environ.pop(variable.name, None)
    os.environ["DATA_DIR"] = str(DATA_DIR / WORKER)
    if not environment.DATABASE_URL.is_set():
        os.environ["DATABASE_URL"] = postgres.ensure(DATA_DIR)
    return (yield)


def pytest_unconfigure() -> None:
    if not WORKER:
        postgres.stop(DATA_DIR)
