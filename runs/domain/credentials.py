"""What a credential looks like: the names under which it stands, and the shapes of the usual kinds of key.

Whoever reads many texts asks `may_be_in` first, which sees at once that none of the marks is there.
"""

import re
from collections.abc import Callable, Iterator

from ahocorasick_rs import BytesAhoCorasick, MatchKind

CREDENTIAL_NAMES = re.compile(
    "(?:interrupt|resume|stream|callback)[_-]?token|(?:interrupt|resume|callback)[_-]?url", re.IGNORECASE
)
"""Of this protocol. Whatever stands under one of these answers for a person."""

SECRET_NAMES = re.compile(
    r"(?:.*[_.-]|[a-z]{0,32})(?:(?:access|refresh|auth|bearer|session)[_-]?token|(?:api|private|signing|secret)[_-]?key"
    r"|secret|password|passwd|passphrase|authorization|cookie)",
    re.IGNORECASE,
)
"""Of anybody. A text under one of these is a secret, unless it is too short for one or a marker in place of one."""

LONGEST_NAME = 128
SHORTEST = 8

# What a text must contain, in lower case, and the shape that then begins there. A shape tries a bounded number of
# characters, or ends with its quantifier, so that a text costs no more than it has marks.
_KEY = "(?<![A-Za-z0-9])"
_MARKED: tuple[tuple[str, str], ...] = (
    ("sk-", _KEY + "sk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic and others after them
    *((mark, _KEY + mark + "(?:live|test)_[A-Za-z0-9]{16,}") for mark in ("sk_", "rk_")),  # Stripe
    *((mark, _KEY + mark + "[A-Za-z0-9]{20,}") for mark in ("ghp_", "gho_", "ghs_", "ghu_", "ghr_")),  # GitHub
    ("github_pat_", _KEY + "github_pat_[A-Za-z0-9_]{20,}"),
    ("glpat-", _KEY + "glpat-[A-Za-z0-9_-]{20,}"),  # GitLab
    ("xox", _KEY + "xox[abeoprs]-[A-Za-z0-9-]{12,}"),  # Slack
    ("aiza", _KEY + "AIza[A-Za-z0-9_-]{35}"),  # Google
    ("akia", _KEY + "AKIA[A-Z0-9]{16}"),  # AWS
    ("asia", _KEY + "ASIA[A-Z0-9]{16}"),
    ("eyj", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\."),  # JWT
    ("-----begin", "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?s:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY|.*)"),  # PEM
    ("bearer", r"(?i:bearer)\s{1,8}[A-Za-z0-9._~+/-]{16,}"),
    ("authorization", r"(?i:authorization)[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}(?i:basic|token)\s{1,4}[^\s\"'\\]{8,}"),
    ("whsec_", "whsec_[A-Za-z0-9+/=_-]{16,}"),  # Standard Webhooks
    ("npm_", _KEY + "npm_[A-Za-z0-9]{36}"),
    ("hf_", _KEY + "hf_[A-Za-z0-9]{30,}"),  # Hugging Face
    ("owp_", _KEY + "owp_[A-Za-z0-9_-]{43}"),  # ours
    # What a text or an address says of itself: a secret by its name, a token, a name with a password.
    *(
        (mark, rf"(?i:{mark})[^\s&\"'<>,;\\]{{6,}}")
        for mark in ("password=", "passwd=", "apikey=", "api_key=", "secret=")
    ),
    *((mark, rf"(?<=[?&])(?i:{mark})") for mark in ("streamtoken=", "stream_token=", "stream-token=")),
    ("token=", r"(?<=[?&_-])(?i:token)=[^&#\s\"'<>\\]{8,}"),
    ("://", r"://[^\s/?#\"'<>@:\\]{0,256}:[^\s/?#\"'<>@\\]{1,256}@"),
)
_SELF_TOLD = next(place for place, (mark, _) in enumerate(_MARKED) if mark == "password=")
_SHAPES = tuple(re.compile(shape.encode()) for _, shape in _MARKED)
_ADDRESS = len(_MARKED) - 1
_DIGIT = re.compile(rb"[0-9]")
_TAKEN_OUT = re.compile(r"\s*(?:[\[<]?redacted|\*{3}|\[quarantined |\$\{|\{\{)", re.IGNORECASE)
_REST = re.compile(rb"[^\s\"'<>(){}\[\],;\\]*")

_NAME_MARKS = (
    *('token"', 'url"', "secret", "passw", "passphrase", 'cookie"', 'apikey"', 'api_key"', 'api-key"'),
    *('privatekey"', 'private_key"', 'private-key"', 'signingkey"', 'signing_key"', 'signing-key"'),
)

_KEYS = [mark.encode() for mark, _ in _MARKED]
# The leftmost match is found with vector instructions, those that overlap are not.
_any_mark = BytesAhoCorasick([*_KEYS, *(mark.encode() for mark in _NAME_MARKS)], matchkind=MatchKind.LeftmostFirst)
_any_key = BytesAhoCorasick(_KEYS, matchkind=MatchKind.LeftmostFirst)
_every_key = BytesAhoCorasick(_KEYS)


def may_be_in(json: bytes) -> bool:
    """A cheap look at JSON text without needless escapes; False is certain."""
    marks = _any_mark.find_matches_as_indexes(json.lower())
    if not marks:
        return False
    return any(mark != _ADDRESS or _SHAPES[mark].match(json, start) for mark, start, _ in marks)


def _shaped(text: bytes, *, shapes: int = len(_MARKED)) -> Iterator[tuple[int, int]]:
    lower = text.lower()
    if not _any_key.find_matches_as_indexes(lower):
        return
    end = 0
    marks = _every_key.find_matches_as_indexes(lower, overlapping=True)
    for start, mark in sorted((start, mark) for mark, start, _ in marks):
        shape = _SHAPES[mark].match(text, start) if start >= end and mark < shapes else None
        if shape is not None:
            end = shape.end()
            yield start, end


def spans_in(text: str) -> list[tuple[int, int]]:
    """Where in a text there are keys, as far as their shapes go; what only calls itself one is left to others."""
    told = _bytes(text)
    found = list(_shaped(told, shapes=_SELF_TOLD))
    if len(told) == len(text):
        return found
    return [(len(_text(told[:start])), len(_text(told[:end]))) for start, end in found]


def is_in(text: str, *, an_id: bool = False) -> bool:
    """Whether something in a text has the shape of a credential. In an id, where words are joined by hyphens, `sk-` may
    begin any: there a digit has to follow."""
    if len(text) < SHORTEST:
        return False
    told = _bytes(text)
    found = _shaped(told)
    if not an_id:
        return any(True for _ in found)
    return any(_DIGIT.search(told, start, end) or not told.startswith(b"sk-", start) for start, end in found)


def without(text: str, instead: Callable[[bytes], str]) -> str:
    """The text with something `instead` of each credential in it and of all that hangs on it."""
    told = _bytes(text)
    pieces: list[bytes] = []
    copied = 0
    for start, end in _shaped(told):
        if start < copied:
            continue
        rest = _REST.match(told, end)
        stop = rest.end() if rest else end
        pieces += (told[copied:start], instead(told[start:stop]).encode())
        copied = stop
    return _text(b"".join((*pieces, told[copied:]))) if pieces else text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(told: bytes) -> str:
    return told.decode("utf-8", "surrogatepass")


def is_secret_name(name: str) -> bool:
    """Whether a text under this name is a secret."""
    return len(name) <= LONGEST_NAME and SECRET_NAMES.fullmatch(name) is not None


def is_secret_under_its_name(text: str) -> bool:
    """Whether a text under such a name can be one: it is long enough, and no marker in place of one."""
    return len(text) >= SHORTEST and not _TAKEN_OUT.match(text)
