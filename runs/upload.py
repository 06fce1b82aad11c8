"""The upload page: a file of events, taken in while it comes, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope

from . import queries
from .domain.limits import LimitExceeded
from .doors import read_items, take
from .models import Host
from .pages import ReceiptRun, ReceiptView, RefusedRow, UploadPage
from .queries import IncidentRow
from .store import Receipt, ref

SHOWN = 100
CHUNK = 64 * 1024


@require_http_methods(["GET", "POST"])
@tenant_page(role=Role.REVIEWER, scoped=False)
def upload(request: TenantRequest) -> HttpResponse:
    """GET: the form. POST: a file as the raw body (``?host=&name=``), or as a form's ``file``.

    The body is read while it is taken in, batch by batch, so a file of any size needs little memory and what is
    committed when the connection breaks stays: sending the file again only counts it as repeated.
    """
    if request.method == "GET":
        return _answer(request, None, status=200)
    sent = request.FILES.get("file") if request.content_type == "multipart/form-data" else None
    slug = request.GET.get("host") or (request.POST.get("host", "") if sent else "")
    name = request.GET.get("name") or (sent.name if sent and sent.name else "")
    with tenant_scope(request.tenant.pk):
        host = Host.objects.filter(tenant_id=request.tenant.pk, slug=slug).first()
    if host is None:
        return _answer(
            request, _failed(name, slug, "Choose one of your hosts: the file's runs are filed under it."), 400
        )
    return _take_in_file(request, host, name, sent)


def _take_in_file(request: TenantRequest, host: Host, name: str, sent: UploadedFile[bytes] | None) -> HttpResponse:
    counted = _Counted(_chunks(request, sent))
    items = read_items(counted, name=name)
    receipt = take(ref(host), items)
    view = _view(receipt, name=name, host=host.slug, size=counted.bytes, error=_error(items.broken))
    return _answer(request, view, _status(receipt, items.broken))


def _error(broken: ValueError | None) -> str | None:
    return f"{broken}. Whole events before that were taken in." if broken else None


def _status(receipt: Receipt, broken: ValueError | None) -> int:
    if isinstance(broken, LimitExceeded):
        return 413
    return 422 if receipt.refused_total and not receipt.taken else 200


class _Counted:
    """Chunks on their way, and how many bytes went by."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.bytes += len(chunk)
            yield chunk


def _chunks(request: TenantRequest, sent: UploadedFile[bytes] | None) -> Iterator[bytes]:
    if sent is not None:
        yield from sent.chunks(CHUNK)
        return
    while chunk := request.read(CHUNK):
        yield chunk


def _failed(name: str, host: str, error: str) -> ReceiptView:
    return ReceiptView(name=name, host=host, bytes=0, error=error)


def _view(receipt: Receipt, *, name: str, host: str, size: int, error: str | None) -> ReceiptView:
    return ReceiptView(
        name=name,
        host=host,
        bytes=size,
        accepted=receipt.accepted,
        repeated=receipt.repeated,
        refused=tuple(
            RefusedRow(index=one.index, line=one.index + 1, reason=one.reason, field=one.field)
            for one in receipt.refused[:SHOWN]
        ),
        refused_total=receipt.refused_total,
        incidents=tuple(
            IncidentRow(
                kind=one.kind.replace("_", "-"),
                text=one.message,
                host=host,
                run_id=one.run_id,
                sequence=one.sequence,
                at=None,
            )
            for one in receipt.incidents[:SHOWN]
        ),
        incidents_total=receipt.incidents_total,
        runs=tuple(
            ReceiptRun(host=host, run_id=run_id, through=through if through >= 0 else None)
            for run_id, through in list(receipt.runs.items())[:SHOWN]
        ),
        runs_total=len(receipt.runs),
        error=error,
    )


def _answer(request: TenantRequest, receipt: ReceiptView | None, status: int) -> HttpResponse:
    with tenant_scope(request.tenant.pk):
        hosts = queries.host_options(request.tenant.pk)
        page = UploadPage(
            section="upload",
            topics="",
            may_upload=True,
            hosts=hosts,
            host=request.GET.get("host", receipt.host if receipt else ""),
            max_bytes=settings.MAX_BODY_BYTES,
            receipt=receipt,
        )
        return render_page(request, "runs/upload.html", page, fragments=("receipt",), status=status)
