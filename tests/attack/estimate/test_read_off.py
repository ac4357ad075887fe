"""A designed probe read off: against NumPy, against exact rationals, and against Algorithm 1."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from exhume import Head
from exhume.attack.coordinates import Coordinates
from exhume.attack.estimate import direct, read_off, symmetric
from exhume.attack.estimate.base import MIXED_FROM, MIXTURES, mixtures
from exhume.attack.probes import designed
from exhume.attack.session import Attack
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError
from tests.attack import exact as ex
from tests.attack.worlds import EPS, World, error_of, norm, roundoff

LANCZOS = 1e-10


def ran(d, c, precision="float64", **options):
    world = World(d, c, n=3 * d, precision=precision)
    return world, Attack(world.target).run(designed(d, c, scale=100.0, **options))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("d", "c"), [(5, 3), (63, 5), (64, 8), (97, 7), (130, 6)])
def test_it_is_the_symmetric_regression_and_its_inverse(d, c, precision):
    _, t = ran(d, c, precision)
    state = read_off(t)
    found = state.diagnostics
    raw = t.X @ np.linalg.pinv(t.Z)
    H = 0.5 * (raw + raw.T)
    A = np.linalg.inv(H)
    # An inverse of H by Cholesky errs by at most this many times its condition number (Higham, section 14.1).
    slack = 8 * d * EPS * np.linalg.cond(H)
    assert norm(state.H - H) <= roundoff(norm(H), size=d)
    assert norm(state.A - A) <= slack * norm(A)
    assert np.array_equal(state.A, state.A.T) and np.array_equal(state.H, state.H.T)
    assert norm(state.G - A @ t.baseline.weights) <= 2 * slack * norm(A) * norm(t.baseline.weights)
    values = np.linalg.svd(H @ t.Z, compute_uv=False)
    assert found.sigma_max_X == pytest.approx(values[0], rel=LANCZOS + slack)
    assert found.sigma_min_X == pytest.approx(values[-1], rel=LANCZOS + slack)
    assert (found.rank_X, found.rank_Z, found.sigma_max_Z, found.sigma_min_Z) == (d, d, 100.0, 100.0)
    assert found.min_eigenvalue_H == pytest.approx(np.linalg.eigvalsh(H)[0], rel=LANCZOS + slack)
    assert found.min_eigenvalue_A == pytest.approx(np.linalg.eigvalsh(A)[0], rel=LANCZOS + slack)
    assert found.e_HQ == pytest.approx(norm(t.X - H @ t.Z) / norm(t.X), rel=1e-6, abs=d * EPS)
    assert found.asymmetry_H == pytest.approx(norm(raw - raw.T) / norm(raw), rel=1e-6, abs=d * EPS)
    assert found.e_AR == pytest.approx(norm(A @ t.X - t.Z) / norm(t.Z), rel=1e-6, abs=2 * slack)
    assert found.e_AH is None and found.asymmetry_A is None
    start = t.baseline.weights
    assert found.r_W == pytest.approx(norm(t.final.weights - start) / norm(start), rel=1e-12)
    assert (found.d, found.responses, found.tolerance) == (d, t.responses, 1e-10)


def exact_run(d, kappa, scale, seed, bits=None):
    """Return the answers that exact arithmetic gives to a designed probe, rounded once, and the exact state."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(d, d)))[0]
    A = (U * np.geomspace(1.0, kappa, d)) @ U.T
    A = np.round(0.5 * (A + A.T) * 2.0**20) / 2.0**20
    H = ex.floats(ex.exact(A).inv())
    X = scale * H if bits is None else (scale * H).astype(bits).astype(np.float64)
    return A, Transcript(Head(np.zeros((d, 1))), X, scale * np.eye(d), d, None, "designed", True)


@pytest.mark.parametrize("bits", [None, np.float32])
@pytest.mark.parametrize("kappa", [1e2, 1e4, 1e6])
def test_it_is_no_less_accurate_than_algorithm_1_on_exact_answers(kappa, bits):
    ours, theirs = [], []
    for seed in range(6):
        A, t = exact_run(24, kappa, 1e4, seed, bits)
        # The answers are rounded once: by that alone A is off by up to kappa roundings, and the solve adds d as many.
        unit = EPS if bits is None else 2.0**-24
        ours.append(norm(read_off(t).A - A) / norm(A))
        theirs.append(norm(direct(t).A - A) / norm(A))
        assert ours[-1] <= (24 * EPS * 8 + unit) * np.linalg.cond(A)
    assert np.median(ours) <= 1.01 * np.median(theirs)


def test_units_of_the_features_leave_the_state_as_it_is():
    world = World(70, 4, n=210)
    scaled = Coordinates(70, np.arange(70), np.geomspace(1e-2, 1e2, 70))
    t = Attack(world.target).run(designed(70, 4, coordinates=scaled))
    state = read_off(replace(t, coordinates=None))
    values = np.linalg.svd(t.X, compute_uv=False)
    assert norm(state.A - world.A) <= error_of(t.Z, t.X, world.A)
    assert state.diagnostics.sigma_max_X == pytest.approx(values[0], rel=1e-8)
    assert state.diagnostics.sigma_min_X == pytest.approx(values[-1], rel=1e-8)


def test_it_declines_what_it_cannot_read():
    _, t = ran(20, 4)
    assert read_off(t) is not None
    assert read_off(t, tolerance=0.5) is None  # not of full rank by that measure
    turned = replace(t, X=-t.X)
    assert read_off(turned) is None  # H is negative definite
    mixed = replace(t, Z=t.Z + t.Z[:, ::-1])
    assert read_off(mixed) is None


def test_many_features_that_cannot_be_read_off_are_not_factored_either(monkeypatch):
    world, t = ran(72, 6)
    turned = replace(t, X=-t.X)
    for estimate in (direct, symmetric):
        monkeypatch.setattr(sys.modules[estimate.__module__], "READ_OFF_FROM", 72)
    for call in (direct, symmetric):
        with pytest.raises(NotIdentifiedError, match="rank"):  # below the size Algorithm 1 says it, with its numbers
            call(t, tolerance=0.5)
    monkeypatch.setattr(sys.modules[read_off.__module__], "READ_OFF_ALONE_FROM", 72)
    monkeypatch.setattr("exhume.attack._linalg.StackFactor.of", lambda _: pytest.fail("a stack was factored"))
    assert norm(direct(t).A - world.A) <= error_of(t.Z, t.X, world.A)
    for call in (direct, symmetric):
        with pytest.raises(NotIdentifiedError, match=r"rank deficient: .* of the largest \(tolerance 0\.5\), 12 resp"):
            call(t, tolerance=0.5)
        with pytest.raises(NotIdentifiedError, match="unstable: H is not positive definite, 12 responses"):
            call(turned)


def test_both_estimators_read_off_from_the_named_size_on(monkeypatch):
    world, t = ran(72, 6)
    assert direct(t).diagnostics.e_AH is not None
    for estimate in (direct, symmetric):
        monkeypatch.setattr(sys.modules[estimate.__module__], "READ_OFF_FROM", 73)
        assert estimate(t).diagnostics.asymmetry_A is not None or estimate is symmetric
        monkeypatch.setattr(sys.modules[estimate.__module__], "READ_OFF_FROM", 72)
        state = estimate(t)
        assert state.diagnostics.e_AH is None and state.diagnostics.asymmetry_H is not None
        assert norm(state.A - world.A) <= error_of(t.Z, t.X, world.A)


def test_mixtures_keep_norms_in_the_mean():
    d, c = MIXED_FROM, 8
    rng = np.random.default_rng(0)
    X, start = rng.normal(size=(d, d)), Head(rng.normal(size=(d, c)))
    t = Transcript(start, X, 3.0 * X, d // c, None, "made", True)
    got = mixtures(t)
    whole = X, 3.0 * X, np.tile(start.weights, d // c) + X
    for one, all_of_it in zip(got, whole, strict=True):
        assert one.shape == (d, MIXTURES)
        # Squares are off by at most five standard deviations, sqrt(2 / MIXTURES) |M'M|_F / |M|_F^2 of them.
        spread = np.sqrt(2.0 / MIXTURES) * norm(all_of_it.T @ all_of_it) / norm(all_of_it) ** 2
        assert (norm(one) / norm(all_of_it)) ** 2 == pytest.approx(1.0, abs=5 * spread)
    small = replace(t, baseline=Head(start.weights[:9]), X=X[:9, : 2 * c], Z=X[:9, : 2 * c])
    assert mixtures(small)[0] is small.X
