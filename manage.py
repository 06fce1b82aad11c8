#!/usr/bin/env python
"""Django's command line, with a database for the commands that need one."""

import os
import sys

from openwop_ui import environment, postgres
from openwop_ui.launch.database import database_for


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openwop_ui.settings")
    from django.core.management import execute_from_command_line

    try:
        with database_for(sys.argv) as lacks_tables:
            if lacks_tables:
                execute_from_command_line([sys.argv[0], "migrate", "--verbosity=0"])
            execute_from_command_line(sys.argv)
    except (environment.Refused, postgres.Failure) as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
