from dataclasses import replace

import numpy as np
import pytest

from exhume import Head
from exhume.attack.estimate import direct
from exhume.attack.session import Attack
from exhume.attack.state import diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from tests.attack.worlds import EPS, World, error_of, low, norm, roundoff

LANCZOS = 1e-10  # the iteration's own relative accuracy, of eigenvalues
SIZES = [(5, 3), (24, 4), (63, 5), (64, 8), (97, 7), (130, 6)]


def ran(d, c, name, precision="float64", **options):
    world = World(d, c, n=3 * d, own=4 * d, precision=precision)
    transcript = Attack(world.target).run(world.probe(name, **options))
    return world, transcript


def plain(transcript):
    """Return Algorithm 1 in straight NumPy: raw and symmetric estimates by pseudo-inverse."""
    raw_A = transcript.Z @ np.linalg.pinv(transcript.X)
    raw_H = transcript.X @ np.linalg.pinv(transcript.Z)
    return raw_A, raw_H, 0.5 * (raw_A + raw_A.T), 0.5 * (raw_H + raw_H.T)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", ["designed", "random", "own-data"])
@pytest.mark.parametrize(("d", "c"), SIZES)
def test_estimates_and_every_diagnostic_agree_with_numpy(d, c, name, precision):
    _, t = ran(d, c, name, precision)
    state = direct(t)
    found = state.diagnostics
    raw_A, raw_H, A, H = plain(t)
    error_A, error_H = error_of(t.Z, t.X, raw_A), error_of(t.X, t.Z, raw_H)
    assert norm(state.A - A) <= error_A
    assert norm(state.H - H) <= error_H
    assert norm(state.G - A @ t.baseline.weights) <= 2 * error_A * norm(t.baseline.weights)

    for stack, top, bottom, kappa, rank in (
        (t.X, found.sigma_max_X, found.sigma_min_X, found.kappa_X, found.rank_X),
        (t.Z, found.sigma_max_Z, found.sigma_min_Z, found.kappa_Z, found.rank_Z),
    ):
        values = np.linalg.svd(stack, compute_uv=False)
        slack = roundoff(values[0], size=d)
        assert abs(top - values[0]) <= slack + LANCZOS * values[0]
        assert abs(bottom - values[-1]) <= slack + LANCZOS * values[-1]
        assert rank == np.linalg.matrix_rank(stack, rtol=1e-10) == d
        assert np.isclose(kappa, np.linalg.cond(stack), rtol=2 * LANCZOS + 2 * slack / values[-1])

    size = norm(t.Z) + norm(A) * norm(t.X)
    assert abs(found.e_AR - norm(raw_A @ t.X - t.Z) / norm(t.Z)) <= (
        roundoff(size, size=d) + error_A * norm(t.X)
    ) / norm(t.Z)
    size = norm(t.X) + norm(H) * norm(t.Z)
    assert abs(found.e_HQ - norm(t.X - raw_H @ t.Z) / norm(t.X)) <= (
        roundoff(size, size=d) + error_H * norm(t.Z)
    ) / norm(t.X)
    gap = error_A * norm(H) + error_H * norm(A) + roundoff(norm(A) * norm(H), size=d)
    assert abs(found.e_AH - norm(A @ H - np.eye(d)) / np.sqrt(d)) <= gap
    assert abs(found.asymmetry_A - norm(raw_A - raw_A.T) / norm(raw_A)) <= 4 * error_A / norm(raw_A)
    assert abs(found.asymmetry_H - norm(raw_H - raw_H.T) / norm(raw_H)) <= 4 * error_H / norm(raw_H)
    for value, matrix, error in ((found.min_eigenvalue_A, A, error_A), (found.min_eigenvalue_H, H, error_H)):
        want = np.linalg.eigvalsh(matrix)[0]
        assert abs(value - want) <= error + roundoff(norm(matrix), size=d) + LANCZOS * want
    start = t.baseline.weights
    assert found.r_W == pytest.approx(norm(t.final.weights - start) / norm(start), rel=1e-12, abs=0)
    assert found.responses == t.responses and found.d == d and found.tolerance == 1e-10


@pytest.mark.parametrize(("d", "c"), SIZES)
def test_residuals_of_rounded_heads_are_those_of_the_raw_estimates(d, c):
    _, t = ran(d, c, "own-data", "16bits")
    found = direct(t).diagnostics
    raw_A, raw_H, A, H = plain(t)
    assert found.e_AR == pytest.approx(norm(raw_A @ t.X - t.Z) / norm(t.Z), rel=1e-4)
    assert found.e_HQ == pytest.approx(norm(t.X - raw_H @ t.Z) / norm(t.X), rel=1e-4)
    assert found.asymmetry_A == pytest.approx(norm(raw_A - raw_A.T) / norm(raw_A), rel=1e-4)
    assert found.asymmetry_H == pytest.approx(norm(raw_H - raw_H.T) / norm(raw_H), rel=1e-4)
    assert found.e_AH == pytest.approx(norm(A @ H - np.eye(d)) / np.sqrt(d), rel=1e-4)


def test_a_cancellation_that_left_something_shows_in_r_W_and_decides_nothing():
    _, t = ran(24, 4, "designed")
    found = direct(replace(t, final=Head(1.5 * t.baseline.weights))).diagnostics
    assert found.r_W == pytest.approx(0.5)


@pytest.mark.parametrize(("d", "c"), SIZES)
def test_A_is_direct_symmetric_and_not_the_inverse_of_H(d, c):
    _, t = ran(d, c, "own-data", "16bits")
    state = direct(t)
    raw_A, raw_H, A, H = plain(t)
    error_A, error_H = error_of(t.Z, t.X, raw_A), error_of(t.X, t.Z, raw_H)
    assert np.array_equal(state.A, state.A.T) and np.array_equal(state.H, state.H.T)
    assert norm(state.A - A) <= error_A < 0.01 * min(norm(raw_A - A), norm(np.linalg.inv(H) - A))
    assert norm(state.H - H) <= error_H < 0.01 * min(norm(raw_H - H), norm(np.linalg.inv(A) - H))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("d", "c"), [(24, 4), (97, 7)])
def test_the_estimate_is_near_the_hidden_state(d, c, precision):
    world, t = ran(d, c, "designed", precision)
    state = direct(t)
    u = {"float64": 2.0**-53, "float32": 2.0**-24}[precision]
    A = world.A
    heads = norm(t.X) + 2 * np.sqrt(t.responses) * norm(t.baseline.weights)
    solved = 10 * d * np.linalg.cond(A) * EPS
    assert norm(state.A - A) <= np.linalg.norm(A, 2) * (2 * u + solved) * heads / low(t.X) + norm(A) * solved


def test_a_designed_stack_has_condition_one_on_the_iterative_path():
    _, t = ran(130, 10, "designed")
    found = direct(t).diagnostics
    assert found.kappa_Z == pytest.approx(1.0, abs=1e-12)
    assert found.sigma_min_Z == pytest.approx(100.0, rel=1e-12)


@pytest.mark.parametrize(("d", "c"), [(24, 4), (64, 8), (97, 7), (130, 10)])
def test_one_random_response_too_few_fails_with_its_numbers(d, c):
    m = -(-d // c) - 1
    _, t = ran(d, c, "random", responses=m)
    with pytest.raises(
        NotIdentifiedError, match=rf"rank deficient: rank\(X\) = {m * c}, rank\(Z\) = {m * c}, needed {d}"
    ) as e:
        direct(t)
    found = e.value.diagnostics
    assert e.value.reason == str(e.value) and f"{m} responses" in e.value.reason
    assert (found.rank_X, found.rank_Z, found.d, found.responses) == (m * c, m * c, d, m)
    assert found.kappa_X == found.kappa_Z == np.inf
    assert found.e_AR is None and found.min_eigenvalue_A is None
    assert found.r_W is not None


@pytest.mark.parametrize(("d", "c"), [(24, 4), (97, 7)])
def test_columns_that_repeat_do_not_count(d, c):
    _, t = ran(d, c, "random", responses=2 * -(-d // c))
    few = t.first(2)
    doubled = Transcript(few.baseline, np.tile(few.X, (1, d)), np.tile(few.Z, (1, d)), 2 * d, None, "twice", True)
    found, _, _ = diagnose_rank(doubled)
    assert found.rank_X == found.rank_Z == np.linalg.matrix_rank(doubled.X, rtol=1e-10) == 2 * c
    with pytest.raises(NotIdentifiedError, match="rank deficient"):
        direct(doubled)


@pytest.mark.parametrize("side", ["X", "Z"])
def test_either_stack_alone_can_fail(side):
    _, t = ran(24, 4, "random")
    stacks = {"X": t.X, "Z": t.Z}
    flat = stacks[side].copy()
    flat[-1] = flat[0]
    stacks[side] = flat
    with pytest.raises(NotIdentifiedError, match=rf"rank\({side}\) = 23") as e:
        direct(Transcript(t.baseline, stacks["X"], stacks["Z"], t.responses, t.final, t.probe, True))
    assert {"X": e.value.diagnostics.rank_Z, "Z": e.value.diagnostics.rank_X}[side] == 24


@pytest.mark.parametrize("d", [6, 24, 97])
def test_an_indefinite_estimate_fails_and_is_not_projected(d):
    rng = np.random.default_rng(0)
    A = np.diag(np.r_[-1.0, np.linspace(1, 3, d - 1)])
    X = rng.normal(size=(d, 2 * d))
    t = Transcript(Head(np.zeros((d, 2))), X, A @ X, d, None, "made", True)
    with pytest.raises(NotIdentifiedError, match="unstable: smallest eigenvalue of A is -1") as e:
        direct(t)
    found = e.value.diagnostics
    assert found.min_eigenvalue_A == pytest.approx(-1.0) and found.min_eigenvalue_H == pytest.approx(-1.0)
    assert found.e_AR is not None and found.rank_X == d


def test_an_indefinite_H_alone_fails():
    # Found with a noisy stack: the two symmetrised estimates need not agree on definiteness.
    rng = np.random.default_rng(0)
    for _ in range(500):
        X = rng.normal(size=(4, 8))
        Z = np.diag([0.3, 1.0, 2.0, 3.0]) @ X + 0.5 * rng.normal(size=X.shape)
        raw_A, raw_H = Z @ np.linalg.pinv(X), X @ np.linalg.pinv(Z)
        low_A, low_H = (np.linalg.eigvalsh(m + m.T)[0] for m in (raw_A, raw_H))
        if low_A > 0 > low_H:
            break
    else:
        raise AssertionError("no such stack found")
    with pytest.raises(NotIdentifiedError, match="unstable") as e:
        direct(Transcript(Head(np.zeros((4, 2))), X, Z, 4, None, "made", True))
    assert e.value.diagnostics.min_eigenvalue_A > 0 > e.value.diagnostics.min_eigenvalue_H


@pytest.mark.parametrize("d", [10, 80])
def test_the_tolerance_decides(d):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, d)))[0] for n in (d, 2 * d))
    X = (U * np.r_[np.geomspace(1, 1e-4, d - 1), 1e-6]) @ V.T
    t = Transcript(Head(np.zeros((d, 2))), X, 2.0 * X, d, None, "made", True)
    assert norm(direct(t).A - 2 * np.eye(d)) <= 1e6 * roundoff(norm(X), size=d)
    assert norm(direct(t, tolerance=0.5e-6).A - 2 * np.eye(d)) <= 1e6 * roundoff(norm(X), size=d)
    with pytest.raises(NotIdentifiedError, match="tolerance 2e-06") as e:
        direct(t, tolerance=2e-6)
    assert e.value.diagnostics.rank_X == np.linalg.matrix_rank(X, rtol=2e-6) == d - 1
    assert e.value.diagnostics.tolerance == 2e-6
    assert e.value.diagnostics.sigma_min_X == pytest.approx(1e-6, rel=1e-6)
