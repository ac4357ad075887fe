"""Where nothing could be shown there is no verdict, and exit code 2; what was not tried is never a clean bill."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from exhume.audit.levels import at_least
from exhume.audit.records_defence import DefenceRecord, SiegeRecord
from exhume.audit.run import audit
from exhume.audit.settings import make_settings
from exhume.audit.verdict import conclude, is_sound
from exhume.audit.verdict_defended import conclude_defended
from tests.cli.test_audit import run

ROOT = Path(__file__).parents[2]


def faintly(tmp_path, **more):
    given = {"dim": 16, "clients": 3, "trials": 4, "probe": "designed", "kind": "record", "jobs": 1, "out": tmp_path}
    return audit(make_settings({**given, **more}))


@pytest.mark.parametrize("scale", [1e-300, 1e-16])
def test_probes_that_are_too_faint_give_no_verdict(tmp_path, scale):
    done = faintly(tmp_path, scale=scale, precision="float64")
    assert done.severity is None
    assert "too faint" in str(done) and "no estimate in 4 trials" in str(done)
    assert repr(done).startswith("Audit(NO VERDICT")
    assert all(cell.faint for cell in done.report.cells)
    page = done.page.read_text()
    assert "no estimate" in page and "NO VERDICT" in page
    assert json.loads((tmp_path / "report.json").read_text())["verdict"]["severity"] is None


def test_loud_probes_give_one(tmp_path):
    done = faintly(tmp_path, precision="float64")
    assert done.severity == "replay"
    assert not any(cell.faint for cell in done.report.cells)
    assert "No verdict" not in str(done)


def test_one_sound_cell_is_enough_for_none(small):
    report = small.done.report
    harmless = [f.model_copy(update={"severity": "none", "reached": ("none",)}) for f in report.findings]
    assert all(is_sound(cell) for cell in report.cells)
    lost = [cell.model_copy(update={"identified": False}) for cell in report.cells]
    faint = [cell.model_copy(update={"faint": True}) for cell in report.cells]
    assert conclude(harmless, [*lost[1:], report.cells[0]], 10).severity == "none"
    for cells in (lost, faint, []):
        assert conclude(harmless, cells, 10).severity is None
    assert conclude(report.findings, lost, 10).severity == report.verdict.severity  # what came out came out


def test_no_level_is_not_below_any():
    assert not at_least(None, "none")


def test_refusals_are_an_outcome_of_settings_and_silence_is_not(small):
    cells = [c.model_copy(update={"server": "mine.toml", "identified": False}) for c in small.done.report.cells]
    findings = [f.model_copy(update={"server": "mine.toml"}) for f in small.done.report.findings]
    price = dict.fromkeys(("accuracy_lost",))
    empty = {
        "name": "mine.toml", "rules": (), "severity_without": "replay", "severity_with": "none", "effects": (),
        "price": {"heads": 0, "uploads": 0, "uploads_refused": {}, "uploads_withheld": 0, "deletions": 0,
                  "deletions_refused": {}, "deletions_withheld": 0, **price},
        "attack_messages": 3, "attack_refused": {}, "attack_withheld": 0, "exposure_without": None,
        "exposure_with": None, "exposure_honest": None, "privacy": (), "sieges": (), "caveat": "",
    }  # fmt: skip
    found = DefenceRecord.model_validate(empty)
    assert conclude_defended(found, findings, cells).severity is None
    for more in ({"attack_refused": {"norm-limit": 3}}, {"attack_withheld": 1}):
        assert conclude_defended(found.model_copy(update=more), findings, cells).severity == "none"
    siege = SiegeRecord(attack="designed", about="", trials=2, guessed=2, labels_correct=0)
    one = conclude_defended(found.model_copy(update={"sieges": (siege,)}), findings, cells)
    assert one.severity == "none" and "1 attacker that knows the settings (designed) has 0/2" in one.text
    two = conclude_defended(found.model_copy(update={"sieges": (siege, siege)}), findings, cells)
    assert "2 attackers that know the settings: the best (designed) has 0/2" in two.text


def test_raw_digits_are_read_in_spite_of_dead_pixels(tmp_path):
    given = {"data": "digits", "encoder": "none", "probe": "own-data", "kind": "record", "trials": 12, "jobs": 1}
    done = audit(make_settings({**given, "precision": "float64,float32", "out": tmp_path}))
    assert done.severity == "replay"
    found = {f.precision: f for f in done.report.findings if f.recovery == "rank-one"}
    assert [found[p].labels_correct for p in ("float64", "float32")] == [12, 12]
    assert found["float64"].relerr_feature.median < 1e-10 and found["float32"].relerr_feature.median < 1e-3
    assert "own-data of 58 of 64" in str(done)
    assert done.report.scenario["live features"].startswith("58 of 64")
    attacker = next(e for e in done.report.cells[0].exposure if e.attacker)
    assert attacker.value == 1.0 and "missing" not in attacker.meaning
    assert [cell.live for cell in done.report.cells] == [58, 58]


def test_the_command_ends_with_2(tmp_path):
    done = run("--dim", "16", "--trials", "2", "--probe", "designed", "--scale", "1e-300", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith("No verdict: ") and "Verdict: NONE" not in done.stdout


TARGETS = """
import pathlib, pickle
from tests.audit.servers import Gone, small_server

STORE = pathlib.Path("server.pickle")

class Kept:
    def __init__(self, server):
        self.server, self.inner = server, server.as_target("auditor")
    def head(self):
        return self.inner.head()
    def submit(self, update):
        head = self.inner.submit(update)
        STORE.write_bytes(pickle.dumps(self.server.ledger))
        return head

def alone():
    return Kept(small_server())

def gone():
    return Gone(alone(), 20)

def later():
    from exhume import Server
    return Kept(Server(pickle.loads(STORE.read_bytes())))
"""


def test_what_is_outstanding_is_sent_by_the_command_later(tmp_path):
    (tmp_path / "mine.py").write_text(TARGETS)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    live = ("--i-operate-this-server", "--out", "report")
    done = run("--target", "mine:gone", *live, cwd=tmp_path, env=env)
    assert done.returncode == 2, done.stderr
    assert "COULD NOT BE TAKEN BACK" in done.stderr and "undo-1.safetensors" in done.stderr
    assert "Verdict" not in done.stdout
    file = tmp_path / "report" / "undo-1.safetensors"
    assert file.is_file()
    for wrong, words in (
        (("--undo", str(file)), "together with --target"),
        (("--undo", str(file), "--target", "mine:later"), "--i-operate-this-server"),
        (("--undo", "mine.py", "--target", "mine:later", "--i-operate-this-server"), "undo must be a file"),
    ):
        refused = run(*wrong, cwd=tmp_path, env=env)
        assert refused.returncode == 2 and words in " ".join(refused.stderr.split())
    sent = run("--undo", str(file), "--target", "mine:later", "--i-operate-this-server", cwd=tmp_path, env=env)
    assert sent.returncode == 0, sent.stderr
    assert "Taken back" in sent.stdout
    assert not file.exists() and file.with_suffix(".sent").is_file()


def test_own_rows_probe_a_live_target_from_the_command(tmp_path):
    (tmp_path / "mine.py").write_text(TARGETS)
    rng = np.random.default_rng(5)
    np.savez(tmp_path / "own.npz", features=rng.standard_normal((60, 12)), labels=rng.integers(0, 3, 60))
    done = run(
        "--target", "mine:alone", "--i-operate-this-server", "--probe", "own-data", "--features", "own.npz",
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Verdict: AGGREGATE")
