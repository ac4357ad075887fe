import numpy as np
import pytest

from exhume.audit.plan import prepare
from exhume.audit.report import pictures
from exhume.audit.report.figures import digits_figure
from exhume.audit.report.pictures import Reader, gallery
from exhume.audit.settings import make_settings
from exhume.decode import available
from tests.audit.conftest import SMALL


def test_enough_active_units_give_the_picture_back():
    rng = np.random.default_rng(0)
    images = rng.uniform(0.3, 0.7, size=(40, 16))  # away from black and white, where a wrong brightness is clipped
    projection = rng.standard_normal((16, 120))
    reader = Reader(projection, images[:30])
    for image in images[30:]:
        feature = np.maximum((image - image.mean()) @ projection, 0.0)
        read = reader.read(feature)
        # The encoder takes the mean away: brightness is the one thing that the features do not hold.
        assert read - read.mean() == pytest.approx(image - image.mean(), abs=1e-3)


def test_without_an_encoder_the_features_are_the_pixels():
    reader = Reader(None, np.zeros((3, 4)))
    assert reader.read(np.array([0.0, 51.0, 255.0, 300.0])).tolist() == [0.0, 0.2, 1.0, 1.0]


@pytest.mark.parametrize("encoder", ["none", "random-relu"])
def test_a_gallery_of_digits(encoder):
    more = {"dim": 128} if encoder == "random-relu" else {"dim": 64}
    plan = prepare(make_settings({**SMALL, **more, "encoder": encoder, "trials": 2, "precision": "float64"}))
    found = gallery(plan)
    assert found.originals.shape == (2, 8, 8)
    if encoder == "random-relu":
        assert found.error("float64") < 0.1


def test_there_is_none_without_record_deletions():
    assert gallery(prepare(make_settings({**SMALL, "kind": "class"}))) is None


@pytest.mark.extras
@pytest.mark.skipif(not available(), reason="the 'decode' extra is not installed")
def test_where_the_encoder_cannot_be_undone_a_local_decoder_draws_beside_its_null(monkeypatch):
    monkeypatch.setattr(pictures, "_undoable", lambda _plan, _entry: False)
    found = gallery(prepare(make_settings({**SMALL, "dim": 128, "trials": 4, "precision": "float64"})))
    assert found.originals.shape == found.null.shape == found.recovered["float64"].shape == (4, 8, 8)
    assert found.error("float64") < found.null_error
    drawn = digits_figure(found)
    assert "for the null" in drawn.see and "trained on the attacker's own pictures" in drawn.see
    names = [axis.get_ylabel() for axis in drawn.figure.axes if axis.get_ylabel()]
    assert names == ["deleted", "recovered\nfloat64", "null:\nlabel alone"]


def test_without_the_extra_such_an_encoder_has_no_gallery(monkeypatch):
    monkeypatch.setattr(pictures, "_undoable", lambda _plan, _entry: False)
    monkeypatch.setattr(pictures, "available", lambda: False)
    assert gallery(prepare(make_settings({**SMALL, "dim": 128, "trials": 2, "precision": "float64"}))) is None
