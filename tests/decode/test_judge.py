import numpy as np
import pytest

from exhume.decode.images import in_8_bits, in_shape
from exhume.decode.judge import CROWD, Judge
from exhume.errors import InputError

DELETED = np.arange(100, 400, 3)


@pytest.fixture
def judge(digits, home):
    return Judge.of(digits.images, DELETED, home, second=False)


def test_the_crowd_holds_the_deleted_records_once_and_others(judge):
    assert len(judge.crowd) == CROWD == len(set(judge.crowd.tolist()))
    assert np.array_equal(judge.crowd[: len(DELETED)], DELETED)


def test_a_records_own_picture_is_found_and_a_mean_is_not(judge, digits):
    own = judge.score(judge.targets)
    assert own.pixels.all() and own.label.mean() > 0.9 and np.isinf(own.psnr).all() and np.allclose(own.ssim, 1)
    assert own.second is None
    mean = np.repeat((digits.images.train_images / 255).mean(axis=0)[None], len(DELETED), axis=0)
    null = judge.score(mean)
    assert null.pixels.sum() <= 1 and null.label.mean() < 0.4


def test_what_was_not_recovered_counts_as_a_failure(judge):
    found = np.arange(len(DELETED)) % 2 == 0
    scores = judge.score(judge.targets, found)
    assert np.array_equal(scores.pixels, found)
    assert not scores.label[~found].any() and len(scores.psnr) == len(DELETED)


def test_records_are_judged_once(digits, home):
    with pytest.raises(InputError, match="different records"):
        Judge.of(digits.images, np.array([1, 1]), home)


def test_pictures_between_shapes():
    grey = np.random.default_rng(0).random((3, 8, 8))
    colour = in_shape(grey, (8, 8, 3))
    assert all(np.array_equal(colour[..., channel], grey) for channel in range(3))
    assert np.allclose(in_shape(colour, (8, 8)), grey)
    assert in_shape(grey, (32, 32, 3)).shape == (3, 32, 32, 3)
    flat = np.full((2, 32, 32, 3), 0.25)
    assert np.allclose(in_shape(flat, (28, 28)), 0.25)
    ramp = np.repeat(np.linspace(0, 1, 32)[None, None], 32, axis=1)
    assert np.allclose(in_shape(ramp, (16, 16))[0, 0], ramp[0, 0].reshape(16, 2).mean(axis=1), atol=0.02)
    assert np.array_equal(in_8_bits(np.array([0.0, 0.5, 1.0, 1.2])), [0, 128, 255, 255])
