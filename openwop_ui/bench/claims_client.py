"""One of the programs that write claims at once: `python -m openwop_ui.bench.claims_client TENANT NUMBER`.

Says that it is ready, and begins at the first line it reads.
"""

from __future__ import annotations

import os
import sys


def main(tenant: int, number: int) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "openwop_ui.settings"
    import django

    django.setup()
    from openwop_ui.bench.claims import bodies_of, take_in

    bodies = bodies_of(number)
    print("ready", flush=True)
    sys.stdin.readline()
    take_in(tenant, bodies)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
