"""What a tenant's admin does to the following of a host, and to its credential."""

from __future__ import annotations

from openwop_ui import vault
from openwop_ui.tenancy.access import TenantRequest
from openwop_ui.tenancy.models import Role

from .host_changes import changes_host, field
from .models import Host
from .pages import HostForm
from .store import ref
from .store.hosts import follow_run, set_credential, set_following, set_run_following
from .store.subscriptions import NotPossible

LONGEST_CREDENTIAL = 4096


def host_form(request: TenantRequest, host: Host) -> HostForm | None:
    """None for who may not change hosts."""
    if not request.membership.may(Role.ADMIN):
        return None
    return HostForm(has_origin=bool(host.origin), following=host.following, fingerprint=_fingerprint(host))


def _fingerprint(host: Host) -> str | None:
    """ "" without a credential, None for one that CREDENTIALS_KEY does not open."""
    try:
        credential = vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        return None
    return vault.fingerprint(credential) if credential else ""


@changes_host
def follow_host(request: TenantRequest, host: Host) -> str:
    """With ``run`` that run alone."""
    following, run = field(request, "following") == "1", request.POST.get("run", "")
    if not host.origin:
        raise NotPossible("a host without an origin is not followed; it delivers")
    if run:
        if following and "named" in request.POST:
            return _follow_named(host, field(request, "run"))
        if not set_run_following(ref(host), run, following):
            raise NotPossible("that run is not being followed any more")
        return "The run is followed again." if following else "Paused. What the run tells meanwhile is read afterwards."
    set_following(ref(host), following)
    return "The host is followed again." if following else "Paused. What happens meanwhile is read afterwards."


def _follow_named(host: Host, run: str) -> str:
    """A run that the host does not list, and that nothing it delivered has named."""
    if not run:
        raise NotPossible("there is no run id in the field")
    if not follow_run(ref(host), run):
        raise NotPossible("that run was followed to its end")
    return "The run is followed from its first event."


@changes_host
def change_credential(request: TenantRequest, host: Host) -> str:
    credential = request.POST.get("credential", "").strip()
    if len(credential) > LONGEST_CREDENTIAL:
        raise NotPossible(f"a credential of more than {LONGEST_CREDENTIAL} characters")
    if not credential.isprintable() or not credential.isascii():
        raise NotPossible("a credential is printable ASCII, as it travels in a header")
    if not credential and not field(request, "forget"):
        raise NotPossible("there is no credential in the field")
    set_credential(ref(host), credential)
    if not credential:
        return "Forgotten. The host is asked without a credential."
    return f"Changed. The host is asked with {vault.fingerprint(credential)} from now on."
