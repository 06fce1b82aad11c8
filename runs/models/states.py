"""States of runs, kept so that a state in the middle of a long log need not be folded from its beginning."""

from __future__ import annotations

from django.db import models


class StateSnapshot(models.Model):
    """A run's state behind ``sequence``, as ``domain.state.dump`` wrote it. Derived from the log.

    It holds as long as the log has ``event_count`` events up to there and the run is of the same ``revision``.
    """

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    version = models.IntegerField()
    revision = models.IntegerField()
    event_count = models.BigIntegerField()
    body = models.BinaryField()
