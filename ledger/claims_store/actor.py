"""Who does something: from the credential or the session, never from a body."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser

from openwop_ui.tenancy.keys import Caller

PERSON = "person"
KEY = "key"
HOST = "host"


@dataclass(frozen=True, slots=True)
class Actor:
    """``label`` is ``person:<login>``, ``key:<name>`` or ``host:<slug>``: no service key looks like it."""

    kind: str
    label: str
    user_id: int | None = None
    key_id: int | None = None

    @classmethod
    def person(cls, user: AbstractBaseUser) -> Actor:
        return cls(PERSON, f"{PERSON}:{user.get_username()}", user_id=user.pk)

    @classmethod
    def program(cls, caller: Caller) -> Actor:
        return cls(KEY, f"{KEY}:{caller.name or caller.key_id}", key_id=caller.key_id)

    @classmethod
    def host(cls, slug: str) -> Actor:
        return cls(HOST, host_writer(slug))


def host_writer(slug: str) -> str:
    """The writer of what a host's entries say."""
    return f"{HOST}:{slug}"
