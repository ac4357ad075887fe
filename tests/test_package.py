"""The package as a whole: what importing it costs and brings."""

import subprocess
import sys

import pytest

import exhume as ex

EXTRAS = ("torch", "torchvision", "PIL", "dask", "distributed", "flwr", "diffusers")
HEAVY = ("sklearn", "matplotlib", "pandas", "jinja2", "pydantic", "typer", "rich", "joblib")


def test_import_brings_neither_extras_nor_heavy_rooms():
    code = f"import sys, exhume; print([m for m in {EXTRAS + HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_defences_come_on_first_use_with_all_their_rooms():
    code = "import sys, exhume; print('exhume.defence' in sys.modules); print(exhume.defence.admission.Replay.name)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "replay"]


def test_every_public_name_is_there():
    for name in ex.__all__:
        assert getattr(ex, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ex.nothing


def test_the_public_face_reads_as_the_design_says():
    import numpy as np

    rng = np.random.default_rng(0)
    features, labels = rng.random((80, 12)), rng.integers(0, 3, 80)
    server = ex.Server(ex.Ledger.zeros(d=12, c=3, gamma=1e-3), release=ex.release.Heads("float64"))
    alice = ex.Client(server, "alice")
    alice.add(features, labels)

    attack = ex.Attack(server.as_target("mallory"))
    before = attack.identify(ex.probes.designed(12, 3, scale=1e4))
    alice.delete(features[7:8], labels[7:8])
    after = attack.identify(ex.probes.designed(12, 3, scale=1e4))
    found = ex.recover.difference(before, after)
    assert found.label == labels[7]
    np.testing.assert_allclose(found.feature, features[7], rtol=1e-5)
    np.testing.assert_allclose(attack.replay(found.block).weights, before.baseline.weights, rtol=1e-6)
