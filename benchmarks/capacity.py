"""How many d x d matrices one process of an audit holds at its peak: the figure behind `exhume.capacity.SQUARES`."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

import numpy as np

from exhume.audit.plan import prepare
from exhume.audit.settings import make_settings
from exhume.audit.work import work
from exhume.capacity import SQUARES
from exhume.data import given_features

DIMS = (400, 800, 1200)


def peak(d: int) -> float:
    """Return the peak memory of a record's trials beyond the features, in matrices of d x d numbers."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 1500)
    given = given_features(np.maximum(rng.standard_normal((1500, d)) + 0.3 * labels[:, None], 0.0), labels)
    with tempfile.TemporaryDirectory() as folder:
        settings = make_settings(
            {"clients": 3, "trials": 1, "probe": "designed", "kind": "record", "precision": "float64", "jobs": 1}
            | {"data": "features", "features": "given", "out": Path(folder) / "report"}
        )
        plan = prepare(settings, given=given)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for unit in plan.units():
            work(plan, unit)
        # Touched pages only: an update's empty gram is reserved, not used.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return 1024 * most / (8 * d * d)


def main() -> None:
    for d in DIMS:
        print(f"d = {d}: {peak(d):.1f} matrices of d x d at the peak; the refusal counts on {SQUARES}")


if __name__ == "__main__":
    main()
