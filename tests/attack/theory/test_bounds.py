"""Every bound and identity of the paper on float runs of a real server with rounded heads."""

from dataclasses import replace

import numpy as np
import pytest

from exhume.attack import recover
from exhume.attack.estimate import direct
from exhume.attack.session import Attack
from exhume.attack.state import diagnose_rank
from exhume.attack.theory import bounds
from tests.attack.worlds import EPS, Tap, World, low, norm, roundoff

D, C = 40, 5
RUNS = [(name, seed) for name in ("designed", "random", "own-data") for seed in (0, 10)]
MOMENT_RUNS = [run for run in RUNS if run[0] != "own-data"]


def probed(name, seed=0, precision="float32"):
    world = World(D, C, n=160, own=200, seed=seed, precision=precision)
    baseline, start = world.server.ledger.head(), world.server.ledger.summary
    tap = Tap(world)
    transcript = Attack(tap).run(world.probe(name))
    _, factor_X, factor_Z = diagnose_rank(transcript)
    grams = [ledger.gram - start.gram for ledger in tap.ledgers[:-1]]
    return bounds.ProbeRun(
        A=world.A,
        baseline=baseline,
        heads=tap.heads[:-1],
        grams=grams if name == "own-data" else None,
        transcript=transcript,
        raw_A=factor_X.right_divide(transcript.Z)[0],
        raw_H=factor_Z.right_divide(transcript.X)[0],
    )


def slack_of(run):
    """Return bounds on the float64 error of both sides of an identity in A, in H, and of the blocks B.

    The unrounded heads are Cholesky solves, wrong by ``kappa(A + P)`` times roundoff, the totals by a few roundoffs.
    """
    X, Z, A = run.transcript.X, run.transcript.Z, run.A
    P = max((norm(gram) for gram in run.grams or ()), default=0.0)
    heads = norm(np.hstack(run.heads)) + np.sqrt(len(run.heads)) * norm(run.baseline)
    solved = roundoff((np.linalg.cond(A) + P * norm(np.linalg.inv(A), 2)) * heads, size=D)
    blocks = (norm(A, 2) + P) * solved + roundoff(norm(Z), size=D)
    in_A = blocks / low(X) + roundoff(norm(run.B) * norm(X) / low(X) ** 2, size=D)
    H = norm(np.linalg.inv(A), 2)
    in_H = (solved + roundoff(H * norm(Z), size=D)) / low(Z) + roundoff(norm(A) * H**2, size=D)
    return in_A, in_H, blocks


def agree(pair, slack):
    left, right = pair
    assert norm(left - right) <= slack
    assert slack < 0.2 * norm(left)  # or the identity would be tested by nothing


@pytest.mark.parametrize(("name", "seed"), MOMENT_RUNS)
def test_identities_of_proposition_1(name, seed):
    run = probed(name, seed)
    in_A, in_H, _ = slack_of(run)
    agree(bounds.direct_A_identity(run), in_A)
    agree(bounds.direct_H_identity(run), in_H)


@pytest.mark.parametrize(("name", "seed"), MOMENT_RUNS)
def test_bounds_of_proposition_1(name, seed):
    run = probed(name, seed)
    in_A, in_H, _ = slack_of(run)
    for sides, error, right, slack in (
        (bounds.direct_A_bound(run), run.raw_A - run.A, norm(run.A, 2) * norm(run.E) / low(run.transcript.X), in_A),
        (bounds.direct_H_bound(run), run.raw_H - np.linalg.inv(run.A), norm(run.E) / low(run.transcript.Z), in_H),
    ):
        # With d columns and a condition of one the bound on H is an equality, which roundoff may tip over.
        assert 0 < sides.left <= sides.right + slack
        assert sides.holds or (name == "designed" and sides.ratio == pytest.approx(1.0, rel=1e-6))
        assert sides.left == pytest.approx(norm(error), rel=1e-12)
        assert sides.right == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_the_error_stack_holds_probe_and_baseline_errors(name, seed):
    run = probed(name, seed)
    u = 2.0**-24
    heads = norm(np.hstack(run.heads)) + np.sqrt(len(run.heads)) * norm(run.baseline)
    assert 0.01 * u * heads < norm(run.E) <= u * heads * (1 + 1e-6)
    N_0 = run.transcript.baseline.weights - run.baseline
    observed = run.transcript.X[:, :C] + run.transcript.baseline.weights
    np.testing.assert_allclose(run.E[:, :C], (observed - run.heads[0]) - N_0, atol=8 * EPS * norm(observed))


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_rounding_identity_and_bound_of_additions(name, seed):
    run = probed(name, seed)
    in_A, _, blocks = slack_of(run)
    agree(bounds.additions_identity(run), in_A)
    assert norm(run.transcript.Z - run.A @ run.transcript.X - run.B) <= blocks
    sides = bounds.additions_bound(run)
    assert sides.holds and 0 < sides.ratio < 1
    assert sides.right == pytest.approx(norm(run.B) / low(run.transcript.X), rel=1e-9)


@pytest.mark.parametrize(("name", "seed"), MOMENT_RUNS)
def test_without_grams_the_rounding_identity_is_proposition_1(name, seed):
    run = probed(name, seed)
    np.testing.assert_allclose(run.B, -run.A @ run.E, atol=roundoff(norm(run.A) * norm(run.E), size=D))
    zeros = replace(run, grams=[np.zeros((D, D))] * len(run.heads))
    assert np.array_equal(zeros.B, run.B)


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_symmetrising_never_moves_the_estimate_away(name, seed):
    run = probed(name, seed)
    state = direct(run.transcript)
    assert norm(state.A - run.A) <= norm(run.raw_A - run.A) + roundoff(norm(run.A), size=1)


def deleted(name, seed, numbers, precision="float32"):
    world = World(D, C, n=160, own=200, seed=seed, precision=precision)
    attack = Attack(world.target)
    A_pre, W_pre = world.A, world.server.ledger.head()
    before = attack.identify(world.probe(name))
    world.delete(*numbers)
    A_post, W_post = world.A, world.server.ledger.head()
    after = attack.identify(world.probe(name))
    block = recover.difference(before, after).block
    attack.replay(block)
    replayed = world.server.ledger.head()
    return world, bounds.DeletionRun(A_pre, A_post, W_pre, W_post, before, after), block, replayed


ROWS = {"sample": (3,), "several": (1, 4, 9, 16, 25)}
DELETIONS = [(name, seed, rows) for name, seed in RUNS for rows in ROWS]


@pytest.mark.parametrize(("name", "seed", "rows"), DELETIONS)
def test_deletion_bounds_and_identities(name, seed, rows):
    world, run, block, replayed = deleted(name, seed, ROWS[rows])
    chosen = list(ROWS[rows])
    F = world.features[chosen]
    S, G = F.T @ F, F.T @ np.eye(C)[world.labels[chosen]]
    states = norm(run.before.A) + norm(run.A_pre) + norm(run.after.A) + norm(run.A_post)
    heads = norm(run.W_pre) + norm(run.W_post)
    condition = np.linalg.cond(run.A_post)

    left, right = bounds.moment_identity(run)
    assert norm(left - right) <= roundoff(states * heads, size=D)
    np.testing.assert_allclose(left, block.moment - G, atol=roundoff(states * heads * condition, size=D))
    assert roundoff(states * heads * condition, size=D) < 0.5 * norm(left)

    sides = bounds.amplification_bound(run)
    assert sides.holds and 0 < sides.ratio < 1
    assert sides.left == pytest.approx(norm(block.gram - S) / norm(S), rel=1e-6)
    assert sides.right == pytest.approx((norm(run.E_pre) + norm(run.E_post)) / norm(S), rel=1e-6)

    left, right = bounds.replay_identity(run, replayed)
    state = run.A_pre + run.E_pre - run.E_post
    floor = low(state)
    drift = roundoff(states * heads * norm(state) / floor**2 + states * heads * condition / floor, size=D)
    drift += 2 * len(run.before.G) * EPS * 1e4 / floor  # the ledger's moment passed through totals of at most this size
    assert norm(left - right) <= drift < 0.5 * norm(left)
    sides = bounds.replay_bound(run, replayed)
    assert sides.holds and 0 < sides.ratio < 1
    N_pre, N_post = run.before.baseline.weights - run.W_pre, run.after.baseline.weights - run.W_post
    size = norm(run.E_post, 2) * norm(run.W_pre - run.W_post) + norm(run.before.A @ N_pre - run.after.A @ N_post)
    assert sides.right == pytest.approx(size / floor, rel=1e-6)


@pytest.mark.parametrize(("name", "seed"), RUNS)
@pytest.mark.parametrize("precision", ["float64", "float32", "18bits"])
def test_the_label_is_right_wherever_the_margin_says_so(name, seed, precision):
    safe = 0
    for row in range(4):
        world, _, block, _ = deleted(name, seed, (row,), precision)
        f, k = world.features[row], int(world.labels[row])
        margin = bounds.sample_margin(block, f, k)
        error = block.moment - np.outer(f, np.eye(C)[k])
        columns = np.linalg.norm(error, axis=0)
        assert margin.left == pytest.approx(columns[k] + np.delete(columns, k).max())
        assert margin.right == pytest.approx(norm(f))
        if margin.holds:
            safe += 1
            sample = block.as_sample()
            assert sample.label == k
            bound = bounds.feature_bound(block, f, k)
            assert bound.holds
            assert bound.left == pytest.approx(norm(sample.feature - f) / norm(f))
            assert bound.right == pytest.approx(norm(error) / norm(f))
        if norm(error) < norm(f) / 2:
            assert margin.holds
    assert safe == 4 or precision != "float64"


def test_an_exact_state_after_restores_the_head_whatever_the_error_before():
    _, run, _, _ = deleted("designed", 0, (3,))
    truth = replace(run.before.baseline, weights=run.W_pre), replace(run.after.baseline, weights=run.W_post)
    before = replace(run.before, A=run.A_pre + np.diag(np.arange(D) / D), baseline=truth[0])
    after = replace(run.after, A=run.A_post, baseline=truth[1])
    _, right = bounds.replay_identity(replace(run, before=before, after=after), run.W_pre)
    assert not right.any()
    assert bounds.replay_bound(replace(run, before=before, after=after), run.W_pre) == bounds.Sides(0.0, 0.0)


@pytest.mark.parametrize(("left", "right", "holds", "ratio"), [(1, 2, True, 0.5), (2, 1, False, 2), (0, 0, True, 1)])
def test_sides(left, right, holds, ratio):
    sides = bounds.Sides(float(left), float(right))
    assert (sides.holds, sides.ratio) == (holds, ratio)
    assert bounds.Sides(1.0, 0.0).ratio == np.inf
