"""What a probe run leaves behind."""

import numpy as np
import pytest

from exhume import Head, Summary
from exhume.attack.estimate import direct
from exhume.attack.transcript import Recorder, Transcript
from exhume.errors import AttackError, InputError
from tests.attack.worlds import World, roundoff


def test_the_first_responses_are_the_transcript_as_it_stood_then():
    world = World()
    t = world.attack.run(world.probe("own-data"))
    early = t.first(5)
    assert (early.responses, early.final, early.probe, early.moment_only) == (5, None, t.probe, t.moment_only)
    assert np.array_equal(early.X, t.X[:, :20]) and np.array_equal(early.Z, t.Z[:, :20])
    assert direct(t.first(t.responses)).diagnostics.r_W is None
    with pytest.raises(InputError, match=f"responses must be from 0 to {t.responses}"):
        t.first(t.responses + 1)


def test_a_head_that_overflowed_is_refused():
    recorder = Recorder(Head(np.zeros((2, 1))), "big")
    recorder.sent(Summary(np.eye(2), np.ones((2, 1))))
    with pytest.raises(AttackError, match="not finite"):
        recorder.heard(Head(np.array([[np.inf], [0.0]])))


@pytest.mark.parametrize("columns", [0, 1, 23, 24, 60])
def test_singular_values_are_those_of_the_responses(columns):
    X = np.random.default_rng(columns).normal(size=(24, columns))
    found = Transcript(Head(np.zeros((24, 1))), X, X, columns, None, "made", True).singular_values()
    want = np.zeros(24)
    want[: min(24, columns)] = np.linalg.svd(X, compute_uv=False) if columns else 0
    assert np.abs(found - want).max() <= roundoff(want[0], size=24)
