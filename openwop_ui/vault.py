"""Secrets at rest: credentials of hosts, sealed with CREDENTIALS_KEY and never shown again."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class UnreadableSecret(Exception):
    """A sealed value that none of the keys in CREDENTIALS_KEY opens."""


@lru_cache(maxsize=4)
def _box(keys: str) -> MultiFernet:
    # The first key seals, all of them open: that is how a key is rotated. What the operator gives is any long text;
    # Fernet wants 32 bytes, and a random text needs no slow derivation.
    digests = [hashlib.sha256(b"openwop-ui credentials\0" + key.strip().encode()).digest() for key in keys.split(",")]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def _current() -> MultiFernet:
    return _box(settings.CREDENTIALS_KEY)


def seal(plain: str) -> str:
    """The encrypted form of a secret; an empty one stays empty."""
    return _current().encrypt(plain.encode()).decode() if plain else ""


def unseal(sealed: str) -> str:
    """The secret again. Raises UnreadableSecret."""
    if not sealed:
        return ""
    try:
        return _current().decrypt(sealed.encode()).decode()
    except InvalidToken as exc:
        raise UnreadableSecret("No key in CREDENTIALS_KEY opens this secret.") from exc


def sealed_again(sealed: str) -> str:
    """The same secret under the first key; itself when that one sealed it. Raises UnreadableSecret."""
    plain = unseal(sealed)
    first = settings.CREDENTIALS_KEY.split(",")[0]
    try:
        _box(first).decrypt(sealed.encode())
    except InvalidToken:
        return seal(plain)
    return sealed


def fingerprint(plain: str) -> str:
    """The first 8 hex digits of the SHA-256, as the protocol shows a secret (webhooks, secretFingerprint)."""
    return hashlib.sha256(plain.encode()).hexdigest()[:8]
