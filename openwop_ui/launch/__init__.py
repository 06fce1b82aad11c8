"""From nothing to a running site: the processes behind `make run`, their logs and their end."""
