"""Averaging below the precision of one head."""

from dataclasses import replace

import numpy as np
import pytest

from exhume import Head
from exhume.attack import recover
from exhume.attack.recover import average_head
from exhume.attack.transcript import Transcript
from exhume.errors import InputError
from tests.attack.worlds import clustered


def test_an_averaged_head_is_closer_than_its_own_precision():
    world = clustered(precision="12bits")
    transcript = world.attack.run(world.probe("own-data", responses=100))
    truth = np.linalg.solve(world.A, world.server.ledger.summary.moment)
    single = np.linalg.norm(transcript.baseline.weights - truth)
    assert np.linalg.norm(average_head(world.A, transcript).weights - truth) < 0.35 * single


def test_averaging_after_the_deletion_buys_labels():
    world = clustered(precision="11bits")
    before = average_head(world.A, world.attack.run(world.probe("own-data", responses=100)))
    state = replace(world.state, baseline=before)
    rows = world.others[:40]
    one, many = 0, 0
    for r in rows:
        _, attack = world.after(r)
        run = attack.run(world.probe("own-data", responses=100))
        one += recover.rank_one(state, run.baseline, nonnegative=True).label == world.labels[r]
        many += recover.averaged(state, run, nonnegative=True).label == world.labels[r]
    assert many > one


def test_how_to_average_can_be_said():
    world = clustered(precision="11bits")
    run = world.after(200)[1].run(world.probe("own-data", responses=30))
    plain = recover.averaged(world.state, run, rounds=1, average=lambda A, transcript: transcript.baseline)
    assert np.array_equal(plain.feature, recover.rank_one(world.state, run.baseline).feature)
    used = []

    def noting(A, transcript):
        used.append(A)
        return average_head(A, transcript)

    once = recover.averaged(world.state, run, rounds=1)
    recover.averaged(world.state, run, average=noting)
    assert np.array_equal(used[0], world.A) and np.array_equal(used[1], world.A - once.block.gram)
    with pytest.raises(InputError, match="rounds must be at least 1"):
        recover.averaged(world.state, run, rounds=0)


@pytest.mark.parametrize("responses", [1, 2, 5])
def test_the_baseline_and_every_response_count_alike(responses):
    """Heads that differ by their errors alone: the average is their plain mean."""
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((responses + 1, 3, 2))
    X = np.hstack([error - errors[0] for error in errors[1:]])
    run = Transcript(Head(errors[0]), X, np.zeros_like(X), responses, None, "still", True)
    np.testing.assert_allclose(average_head(np.eye(3), run).weights, errors.mean(axis=0), rtol=1e-12)
