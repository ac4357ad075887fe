"""The attacker's own gram as a guess of A."""

import numpy as np
import pytest

from exhume.attack.estimate import gram_guess
from exhume.errors import InputError
from tests.attack.worlds import rows


def test_it_is_the_gram_with_a_thousandth_of_its_mean_eigenvalue_scaled_to_the_rows():
    F, _ = rows(0, 30, 8, 2)
    want = F.T @ F + 1e-3 * np.trace(F.T @ F) / 8 * np.eye(8)
    np.testing.assert_allclose(gram_guess(F), want, rtol=1e-14)
    np.testing.assert_allclose(gram_guess(F, 90), 3 * want, rtol=1e-14)


def test_few_rows_still_make_a_positive_definite_guess():
    assert np.linalg.eigvalsh(gram_guess(rows(0, 3, 8, 2)[0]))[0] > 0


@pytest.mark.parametrize("features", [np.empty((0, 8)), np.ones(8)])
def test_no_rows_make_no_guess(features):
    with pytest.raises(InputError, match="features must be a two-dimensional array of at least one row"):
        gram_guess(features)
