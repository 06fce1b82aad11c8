"""How a benchmark says what it measured: one JSON object a line."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence


def tell(name: str, value: float, unit: str, *, ratio: float | None = None, against: str | None = None) -> None:
    """``ratio`` is the value over the limit that was measured in the same run and is named by ``against``."""
    line: dict[str, object] = {"name": name, "value": round(value, 3), "unit": unit}
    if ratio is not None:
        line |= {"ratio": round(ratio, 3), "against": against}
    print(json.dumps(line), flush=True)


def remark(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    rank = max(0, min(len(ordered) - 1, round(percent / 100 * len(ordered) + 0.5) - 1))
    return ordered[rank]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
