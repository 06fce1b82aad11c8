"""As whom the server runs. It refuses root, so under root it runs as an unprivileged user."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from openwop_ui.postgres.failure import Failure

UNPRIVILEGED = "nobody"
_NUMBER_OF_NOBODY = 65534
# The one right it may need: to pass through folders that are closed to others, such as /root. It can write
# nothing through it. Opening those folders instead would open them to every user of the machine.
_PASS_THROUGH = "dac_read_search"


@dataclass(frozen=True, slots=True)
class Account:
    """`prefix` goes before a command line; it is empty for the user that this process already is."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()

    def command(self, *line: str) -> list[str]:
        return [*self.prefix, *line]

    def give(self, path: Path) -> None:
        if self.prefix:
            os.chown(path, self.uid, self.gid)


def choose_account(data: Path, *, programs: Path) -> Account:
    """The account that owns `data`, or is to own it, and can reach it and run what is in `programs`."""
    if os.geteuid() != 0:
        return _ourselves(data)
    uid, gid = _unprivileged(data)
    setpriv = which("setpriv")
    if setpriv is None:
        raise Failure("PostgreSQL does not run as root, and `setpriv` (util-linux) to leave root is missing.")
    plain = Account(uid, gid, (setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"))
    for account in (plain, _with_passage(plain)):
        if _reaches(account, data.parent, programs):
            return account
    raise Failure(
        f"PostgreSQL does not run as root, and the user it runs as instead ({_user_name(uid)}) cannot reach"
        f" {data.parent} or {programs}: a folder above is closed to others. Set DATA_DIR to a folder outside"
        " it and keep the checkout in an open folder, start as an ordinary user, or set DATABASE_URL."
    )


def _ourselves(data: Path) -> Account:
    if data.exists() and data.stat().st_uid != os.geteuid():
        owner = _user_name(data.stat().st_uid)
        raise Failure(f"{data} belongs to {owner}. Start as {owner} or as root, or choose another DATA_DIR.")
    return Account(os.geteuid(), os.getegid())


def _unprivileged(data: Path) -> tuple[int, int]:
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return owner.st_uid, owner.st_gid
    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        return _NUMBER_OF_NOBODY, _NUMBER_OF_NOBODY
    return entry.pw_uid, entry.pw_gid


def _with_passage(account: Account) -> Account:
    sets = (f"--{name}=-all,+{_PASS_THROUGH}" for name in ("bounding-set", "inh-caps", "ambient-caps"))
    # access(2), by which PostgreSQL looks for its own files, counts the right only with this bit.
    return Account(account.uid, account.gid, (*account.prefix[:-1], "--securebits=+no_setuid_fixup", *sets, "--"))


def _reaches(account: Account, folder: Path, programs: Path) -> bool:
    # `initdb --show` changes nothing, but looks for the files that it and the server need, as they do later.
    probe = account.command("/bin/sh", "-c", 'cd "$1" && exec "$2" --show -D "$1/none"', "sh", str(folder))
    done = subprocess.run([*probe, str(programs / "initdb")], cwd="/", capture_output=True, check=False)
    return done.returncode == 0


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
