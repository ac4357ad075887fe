from __future__ import annotations

import numpy as np
import pytest

from exhume.paper.cells import Split, Victim, clipped_scale, request_p99, scenario, victim_rows
from exhume.paper.study import Study


def test_smaller_runs_take_the_first_of_the_same_draws(study: Study) -> None:
    split = Split(0, 4, 2.0)
    stage = scenario(study.source, split)
    drawn = [int(victim_rows(stage, split, Victim("record", i, 7))[0]) for i in range(5)]
    assert drawn == np.random.default_rng(7).choice(600, 100, replace=False)[:5].tolist()
    others = [int(victim_rows(stage, split, Victim("record", i, 0, others=True))[0]) for i in range(5)]
    assert not set(others) & set(stage.parts[stage.attacker].tolist())


def test_clipped_requests_are_as_large_as_honest_ones(study: Study) -> None:
    scale = clipped_scale(study.source, 12, 4)
    # increments hold +s and -s in each of 4 columns: |gram|^2 = 2 * 4 * (s^2/2)^2, |moment|^2 = 2 * 4 * s^2/2
    assert np.sqrt(2 * scale**4 + 4 * scale**2) == pytest.approx(request_p99(study.source))
