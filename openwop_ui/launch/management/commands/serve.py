"""`manage.py serve`: the web server process."""

from __future__ import annotations

from typing import Any

import uvicorn
from django.core.management.base import BaseCommand

from openwop_ui import environment

# What is being answered when the server is told to stop gets this long to end.
SECONDS_TO_FINISH = 3


class Command(BaseCommand):
    help = "Serve pages, API and sockets on BIND_ADDRESS and PORT. `up` runs it together with all else."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        uvicorn.run(
            "openwop_ui.asgi:application",
            host=environment.BIND_ADDRESS.value(),
            port=environment.PORT.value(),
            http="httptools",
            ws="websockets-sansio",
            ws_max_size=64 * 1024,
            lifespan="on",
            # Django's logging is in charge. Paths hold ids of tenants, so requests are counted, not listed.
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=environment.HTTPS.value(),
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
