"""Symmetric regression against plain least squares over the entries of the upper triangle."""

import numpy as np
import pytest

from exhume.attack.symmetric_regression import SymmetricRegression


def by_least_squares(X, Z, row, column):
    """Solve ``X = H Z`` for the upper triangle of H, each equation divided by its own noise."""
    d, n = Z.shape
    unknowns = [(i, j) for i in range(d) for j in range(i, d)]
    M = np.zeros((d, n, len(unknowns)))
    for k, (i, j) in enumerate(unknowns):
        M[i, :, k] += Z[j]
        if i != j:
            M[j, :, k] += Z[i]
    weight = 1 / np.outer(row, column)
    values, *_ = np.linalg.lstsq((M * weight[..., None]).reshape(d * n, -1), (X * weight).ravel(), rcond=None)
    H = np.zeros((d, d))
    for value, (i, j) in zip(values, unknowns, strict=True):
        H[i, j] = H[j, i] = value
    left = np.linalg.norm((X - H @ Z) * weight)
    return H, left / np.sqrt(max(d * n - len(unknowns), 1))


@pytest.mark.parametrize("n", [6, 9, 20])
def test_it_is_the_weighted_least_squares_fit(n):
    rng = np.random.default_rng(n)
    d = 6
    Z, X = rng.standard_normal((d, n)), rng.standard_normal((d, n))
    row, column = rng.uniform(0.5, 2, d), rng.uniform(0.5, 2, n)
    H, misfit = by_least_squares(X, Z, row, column)
    found = SymmetricRegression.of(Z, row, column)
    whole = found.whole(X)
    np.testing.assert_allclose(found.symmetric_part(whole), H, rtol=1e-9, atol=1e-11)
    assert found.misfit(whole) == pytest.approx(misfit, rel=1e-9)
    np.testing.assert_allclose(found.back(whole), X, rtol=1e-12, atol=1e-13)


def test_with_fewer_columns_what_was_not_read_is_zero():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5))
    H, Z = A + A.T, np.eye(5)[:, :3]
    found = SymmetricRegression.of(Z, np.ones(5), np.ones(3))
    whole = found.whole(H @ Z)
    expected = H.copy()
    expected[3:, 3:] = 0
    np.testing.assert_allclose(found.symmetric_part(whole), expected, atol=1e-12)
    assert found.misfit(whole) < 1e-13


def test_the_asymmetry_of_a_rank_one_stack_needs_no_stack():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((5, 8))
    a, b = rng.standard_normal(5), rng.standard_normal(8)
    found = SymmetricRegression.of(Z, np.ones(5), np.ones(8))
    left, right = found.left(a[:, None])[:, 0], found.right(b[:, None])[:, 0]
    np.testing.assert_allclose(found.skew_of(left, right[:5]), found.skew(found.whole(np.outer(a, b))), atol=1e-12)
