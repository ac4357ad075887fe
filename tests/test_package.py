"""The package as a whole: what importing it costs and brings."""

import subprocess
import sys
import tomllib
from pathlib import Path

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


@pytest.mark.parametrize(("room", "rooms"), [("attack", "strategies"), ("attack", "theory"), ("defence", "admission")])
def test_rooms_of_a_room_come_on_first_use(room, rooms):
    code = f"import sys, exhume; print('exhume.{room}' in sys.modules); print(exhume.{room}.{rooms}.__name__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", f"exhume.{room}.{rooms}"]


def test_every_public_name_is_there():
    for name in ex.attack.__all__:
        assert getattr(ex.attack, name) is not None and name in dir(ex.attack)
    with pytest.raises(AttributeError, match=r"'exhume\.attack' has no attribute 'nothing'"):
        _ = ex.attack.nothing
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


def test_the_metadata_leads_to_source_issues_and_changelog_and_names_every_python():
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(project["urls"])
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if "Python :: 3." in c]
    assert named == ["3.11", "3.12", "3.13", "3.14"]
    least, beyond = project["requires-python"].split(",")
    assert least == f">={named[0]}" and beyond == "<3.15"
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    assert "(3, 11) <= sys.version_info[:2] <= (3, 14)" in makefile
    assert "\npaper: $(VENV)/.vision " in makefile  # it needs torch, and brings it
    for name in ("SECURITY.md", "CITATION.cff", ".github/ISSUE_TEMPLATE/bug.yml"):
        assert (root / name).is_file()
