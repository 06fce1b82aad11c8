#!/usr/bin/env python
"""Django's command line, with a database for the commands that need one."""

import os
import sys

from openwop_ui import environment, postgres
from openwop_ui.launch.database import database_for

OUTDATED = ("42P01", "42703", "42883")
"""undefined_table, undefined_column, undefined_function"""


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openwop_ui.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    try:
        with database_for(sys.argv) as lacks_tables:
            if lacks_tables:
                execute_from_command_line([sys.argv[0], "migrate", "--verbosity=0"])
            execute_from_command_line(sys.argv)
    except (environment.Refused, postgres.Failure) as problem:
        sys.exit(f"error: {problem}")
    except ProgrammingError as problem:
        if getattr(problem.__cause__, "sqlstate", None) not in OUTDATED:
            raise
        sys.exit("error: the database lacks tables or columns of this version; `manage.py migrate` makes them")
    except OperationalError as problem:
        sys.exit(f"error: the database does not answer: {str(problem).splitlines()[0]}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
