"""Probes shaped by a guess of the state."""

import numpy as np
import pytest

from exhume.attack.estimate import gram_guess, symmetric
from exhume.attack.probes.conditioned import conditioned as probe
from exhume.attack.strategies import conditioned
from exhume.errors import InputError
from tests.attack.worlds import clustered, gap


def test_conditioned_beats_designed_at_the_same_number_of_responses():
    world = clustered(precision="bfloat16")
    plain = world.attack.run(world.probe("designed", scale=1e4))
    paper = gap(symmetric(plain, guess=np.eye(24)).A, world.A)
    ours = gap(conditioned(world.attack, gram_guess(world.own_features), rounds=1).A, world.A)
    assert ours < paper


def test_a_second_round_sharpens_the_first():
    world = clustered(precision="bfloat16")
    guess = gram_guess(world.own_features, len(world.features))
    once, twice = (gap(conditioned(world.attack, guess, rounds=n).A, world.A) for n in (1, 2))
    assert twice < 0.5 * once


def test_bad_calls():
    world = clustered()
    with pytest.raises(InputError, match="rounds must be at least 1"):
        conditioned(world.attack, world.A, rounds=0)
    with pytest.raises(InputError, match="scale must be a finite number above 0"):
        conditioned(world.attack, world.A, scale=0.0)
    assert world.attack.cost.messages == 0


@pytest.mark.parametrize("seed", range(3))
def test_with_a_good_guess_the_zeros_of_the_responses_are_read_more_sharply_than_their_ones(seed):
    world = clustered(precision="bfloat16", seed=seed)
    guess = world.A * (1 + 1e-3)
    plain = symmetric(world.attack.run(probe(guess, world.c, scale=1e3)), guess=guess)
    ours = conditioned(world.attack, guess, rounds=1)
    # Up to a common factor, which the zeros do not show.
    shape = [state.A * (np.trace(world.A) / np.trace(state.A)) for state in (plain, ours)]
    assert gap(shape[1], world.A) < 0.5 * gap(shape[0], world.A)
