import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhume import Head
from exhume.errors import InputError
from exhume.protocol import round_to, unit_roundoff

floats = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.lists(floats, min_size=1, max_size=8), st.sampled_from(["float32", "float16", "bfloat16", "5bits", "16bits"]))
def test_rounding_twice_is_rounding_once_and_within_half_a_unit(values, precision):
    x = np.array(values)
    once = round_to(x, precision)
    assert np.array_equal(round_to(once, precision), once)
    normal = (np.abs(x) > 1e-4) & (np.abs(x) < 6e4)
    assert np.all(np.abs(once - x)[normal] <= unit_roundoff(precision) * np.abs(x)[normal])


def test_bfloat16_is_the_upper_half_of_float32_rounded_to_even():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=4000) * 10.0 ** rng.integers(-44, 38, 4000)).astype(np.float32)
    raw = x.view(np.uint32).astype(np.uint64)
    want = (((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(round_to(x.astype(np.float64), "bfloat16"), want.astype(np.float64))


def test_overflow_goes_to_infinity_as_in_hardware():
    assert round_to(np.array([1e6, -1e6]), "float16").tolist() == [np.inf, -np.inf]
    assert round_to(np.array([3.4e38]), "bfloat16").tolist() == [np.inf]


@pytest.mark.parametrize("name", ["double", "float8", "1bits", "54bits", "bits", ""])
def test_unknown_precision(name):
    with pytest.raises(InputError, match="precision must be float64, float32"):
        Head(np.ones((2, 2)), name)


def test_scores_and_accuracy():
    head = Head(np.array([[1.0, 0.0], [0.0, 2.0]]))
    assert head.predict([[1.0, 0.0], [1.0, 1.0]]).tolist() == [0, 1]
    assert head.accuracy([[1.0, 0.0], [1.0, 1.0]], [0, 0]) == 0.5


@pytest.mark.parametrize(("precision", "bits"), [("float32", 24), ("float16", 11), ("bfloat16", 8), ("5bits", 5)])
def test_the_unit_roundoff_is_the_largest_error_there_is(precision, bits):
    u = unit_roundoff(precision)
    assert u == 2.0**-bits
    # Half way between 1 and its successor the error is u / (1 + u).
    x = np.concatenate([np.linspace(1.0, 2.0, 10_001), [1.0 + u]])
    worst = np.max(np.abs(round_to(x, precision) - x) / x)
    assert 0.9 * u < worst <= u
