"""How a page names its modules."""

from __future__ import annotations

from django import template
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from openwop_ui.live.scripts import imported_by

register = template.Library()


@register.simple_tag
def module(name: str) -> SafeString:
    """A module of ours, and what it imports named beside it.

    Without that the browser learns of each import only from the script before it, one round trip after the other.
    """
    ahead = format_html_join("", '<link rel="modulepreload" href="{}">', ((static(one),) for one in imported_by(name)))
    return format_html('<script type="module" src="{}"></script>{}', static(name), ahead)
