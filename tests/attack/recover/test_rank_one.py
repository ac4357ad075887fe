"""One record from the state before and one head after."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Head
from exhume.attack._linalg import Positive
from exhume.attack.estimate import symmetric
from exhume.attack.recover import rank_one
from exhume.attack.recover.rank_one import MARGIN, RANK_ONE, UNEXPLAINED, RankOneDiagnostics
from exhume.attack.state import State
from exhume.errors import InputError
from exhume.protocol.head import round_to, unit_roundoff
from tests.attack.worlds import clustered, gap


@settings(max_examples=30)
@given(st.integers(150, 599), st.integers(0, 50))
def test_from_an_exact_state_it_is_exact(row, seed):
    world = clustered(seed=seed)
    found = rank_one(world.state, world.head_after(row))
    assert found.label == world.labels[row]
    assert gap(found.feature, world.features[row]) < 1e-6
    assert found.diagnostics.second < 1e-6 and found.diagnostics.residual < 1e-6
    assert found.known
    block = found.block
    truth = world.block(row)
    assert gap(block.gram, truth.gram) < 1e-5 and gap(block.moment, truth.moment) < 1e-5


def test_the_label_is_not_simply_the_largest_entry_of_the_right_vector():
    world = clustered(seed=3)
    wrong = 0
    for row in world.others[:100]:
        after = world.head_after(row)
        right = np.linalg.svd(world.A @ (world.state.baseline.weights - after.weights))[2][0]
        wrong += int(np.abs(right).argmax() != world.labels[row])
    assert wrong > 0


@pytest.mark.parametrize("heads", ["float32", "20bits"])
def test_from_rounded_heads_of_attacker_data(heads):
    world = clustered(precision=heads)
    state = symmetric(world.attack.run(world.probe("own-data", responses=24)))
    rows = world.others[:60]
    found = [rank_one(state, world.head_after(r), nonnegative=True) for r in rows]
    right = np.array([f.label == world.labels[r] for f, r in zip(found, rows, strict=True)])
    assert right.mean() >= 0.99
    assert all(ok for f, ok in zip(found, right, strict=True) if f.known)


def test_it_says_when_it_does_not_know():
    world = clustered(precision="8bits")
    rows = world.others[:60]
    found = [rank_one(world.state, world.head_after(r)) for r in rows]
    wrong = [f for f, r in zip(found, rows, strict=True) if f.label != world.labels[r]]
    assert len(wrong) > 10
    assert sum(f.known for f in wrong) <= 0.1 * len(wrong)


def test_known_signs_rule_out_records_on_the_other_side():
    world = clustered(precision="8bits")
    heads = [world.head_after(r) for r in world.others[:60]]

    def negative(**options):
        return sum(rank_one(world.state, head, **options).feature.sum() < 0 for head in heads)

    # Where no length is positive, one that is not stays the best guess.
    assert negative(nonnegative=True) < negative()


def test_two_deleted_records_are_not_taken_for_one():
    world = clustered()
    a, b = (
        world.others[np.flatnonzero(world.labels[world.others] == 0)[0]],
        world.others[np.flatnonzero(world.labels[world.others] == 1)[0]],
    )
    assert rank_one(world.state, world.head_after([a, b])).diagnostics.second > 1e-3


def test_sizes_must_match():
    world = clustered()
    with pytest.raises(InputError, match="after must be of d = 24, c = 4"):
        rank_one(world.state, Head(np.zeros((24, 5))))


def stretched(noise):
    """A state and a head after it that differ by one record and an error of known size, below the threshold of 0.5."""
    world = clustered(seed=4)
    state, after = world.state, world.head_after(world.others[5]).weights
    L = np.linalg.cholesky(world.A)
    error = np.linalg.solve(L.T, np.random.default_rng(0).standard_normal(after.shape))
    first = np.linalg.norm(L.T @ (state.baseline.weights - after), 2)
    error *= 0.1 * first / np.linalg.norm(L.T @ error, 2)
    return replace(state, noise=noise), Head(after + error)


def test_noise_decides_whether_a_record_is_known():
    """A second value of a tenth is a second record, unless the server's measured arithmetic explains it."""
    state, after = stretched(noise=0.0)
    silent = rank_one(state, after)
    assert UNEXPLAINED < silent.diagnostics.second < RANK_ONE and silent.diagnostics.margin > MARGIN
    assert not silent.known
    first = (
        silent.diagnostics.second
        and np.linalg.svd(np.linalg.cholesky(state.A).T @ (state.baseline.weights - after.weights), compute_uv=False)[0]
    )
    for share, known in ((0.9, False), (1.1, True)):
        wanted = share * silent.diagnostics.second / 3.0  # of the ratio: known below three times the noise
        found = rank_one(replace(state, noise=wanted * first), after)
        assert found.diagnostics.noise == pytest.approx(wanted)
        assert found.known is known


def test_rounding_alone_is_the_noise_of_an_exact_server():
    world = clustered(precision="12bits")
    found = rank_one(world.state, world.head_after(world.others[0])).diagnostics
    errors = []
    L = np.linalg.cholesky(world.A)
    exact = clustered()
    for row in world.others[:40]:
        gone = (world.state.baseline.weights - exact.state.baseline.weights) - (
            world.head_after(row).weights - exact.head_after(row).weights
        )
        errors.append(np.linalg.norm(L.T @ gone))
    first = np.linalg.norm(L.T @ (world.state.baseline.weights - world.head_after(world.others[0]).weights), 2)
    # The spacing of a binary format is between half and all of what its unit roundoff allows relative to the entry.
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) / (found.noise * first) < 1.0


def test_one_class_or_no_change_is_never_known():
    world = clustered(c=1)
    found = rank_one(world.state, world.head_after(world.others[0]))
    assert found.diagnostics.second == float("inf")
    assert found.known is False
    world = clustered()
    assert rank_one(world.state, world.state.baseline).known is False


@pytest.mark.parametrize(("before", "after"), [("8bits", "float64"), ("float64", "8bits"), ("8bits", "12bits")])
def test_the_noise_is_the_root_mean_square_of_both_heads_rounding(before, after):
    """Drawn by hand: each entry errs by up to u times its size; whitened and beside the change itself."""
    world, row, rng = clustered(), 300, np.random.default_rng(0)
    exact, left = world.state.baseline.weights, world.head_after(row).weights
    heads = [Head(round_to(w, p), p) for w, p in ((exact, before), (left, after))]
    L = np.linalg.cholesky(world.A)
    top = np.linalg.norm(L.T @ (heads[0].weights - heads[1].weights), 2)
    bounds = [unit_roundoff(head.precision) * head.weights for head in heads]
    sizes = [np.linalg.norm(L.T @ sum(rng.uniform(-1, 1, b.shape) * b for b in bounds)) for _ in range(400)]
    expected = np.sqrt(np.mean(np.square(sizes))) / top
    found = rank_one(State.of(world.A, heads[0]), heads[1]).diagnostics.noise
    # 400 draws of 96 independent entries: the estimate is good to about 1%.
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("second", "noise", "margin", "known"),
    [
        (0.01, 0.0, 3.0, True),
        (0.1, 0.0, 3.0, False),  # nothing explains it
        (0.1, 0.05, 3.0, True),
        (0.1, 0.01, 3.0, False),  # ten times the noise is no noise
        (0.4, 0.3, 3.0, True),
        (0.6, 0.3, 3.0, False),  # whatever the noise, that is no single record
        (0.01, 0.0, 1.5, False),  # another label fits nearly as well
    ],
)
def test_a_record_is_known_if_noise_explains_the_rest_and_one_label_fits_best(second, noise, margin, known):
    assert RankOneDiagnostics(second=second, noise=noise, residual=0.0, margin=margin).known == known


def test_the_state_is_factored_once_for_all_recoveries_and_anew_after_a_change(monkeypatch):
    world = clustered()
    state, calls, factor = world.state, [], Positive.of.__func__
    monkeypatch.setattr(Positive, "of", classmethod(lambda cls, a: calls.append(a) or factor(cls, a)))
    for row in world.others[:5]:
        rank_one(state, world.head_after(row))
    assert len(calls) == 1 and calls[0] is state.A
    moved = replace(state, A=state.A + np.eye(state.d))
    np.testing.assert_allclose(moved.factor.colour(np.eye(state.d)), np.linalg.cholesky(moved.A), atol=1e-9)


def test_a_state_that_is_not_positive_definite_has_no_factor():
    state = clustered().state
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        _ = replace(state, A=-state.A).factor
