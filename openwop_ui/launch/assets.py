"""How pages name their scripts and styles."""

from __future__ import annotations

from hashlib import blake2b
from operator import itemgetter
from pathlib import Path

from django.contrib.staticfiles import finders
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

from openwop_ui import VERSION


class AssetStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # it ships no types
    """Collected assets are named after their content and cached for ever.

    One that has not been collected keeps its own name and is served from the source folders: tests and a
    server started by hand need no `collectstatic`, and a file added since then is no error.
    """

    # An import within a script of ours names its file as a page does: none ever runs beside one of another version.
    # Django's own way of doing this would read the scripts of libraries too, some of which import what is not there.
    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        (
            "js/*.js",
            (
                (r"""(?m)(?P<matched>^(?P<names>import\s[^;"']*)"(?P<url>\./[^"]+)";)""", '%(names)s"%(url)s";'),
                (r"""(?P<matched>import\("(?P<url>\./[^"]+)"\))""", 'import("%(url)s")'),
            ),
        ),
    )
    max_post_process_passes = 20  # at least how deep imports go

    def stored_name(self, name: str) -> str:
        cleaned = self.clean_name(name)
        return str(self.hashed_files.get(self.hash_key(cleaned), cleaned))


def collect_assets(target: Path) -> bool:
    """Run `collectstatic` unless what it left in `target`, its STATIC_ROOT, still holds. Whether it ran."""
    stamp = target / "collected.stamp"
    sources = _fingerprint()
    if stamp.exists() and stamp.read_text("ascii") == sources:
        return False
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp.write_text(sources, "ascii")
    return True


def _fingerprint() -> str:
    digest = blake2b(VERSION.encode(), digest_size=16)
    for finder in finders.get_finders():
        for name, source in sorted(finder.list(None), key=itemgetter(0)):
            file = Path(source.path(name)).stat()
            digest.update(f"{name}\0{file.st_size}\0{file.st_mtime_ns}\n".encode())
    return digest.hexdigest()
