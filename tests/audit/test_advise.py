"""The matrix: every attack against every defence runs, and the documented outcomes hold."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from exhume.audit.advise import run as runner
from exhume.audit.advise.advice import Needs, recommend, rows_of, upper
from exhume.audit.advise.defences import DEFENCES, Context, defence, honest_blocks, honest_logs
from exhume.audit.advise.detection import false_positives, power
from exhume.audit.advise.federation import Federation
from exhume.audit.advise.run import Request, run, setting_of
from exhume.audit.advise.setting import make_setting
from exhume.audit.advise.work import ALL_ATTACKS, Cell, honest_cell, run_cell
from exhume.cli.main import app
from exhume.defence.config import build_server, dump, load
from exhume.errors import DataError, InputError
from exhume.protocol import Ledger

SMALL = Request(dim=24, trials=5, averaged=8)


@pytest.fixture(scope="module")
def setting():
    return setting_of(SMALL)


# (attack, defence, labels recovered, replays): "all", "none" or "any"
OUTCOMES = [
    ("designed", "none", "all", "all"),
    ("random", "none", "all", "all"),
    ("label-swap", "none", "all", "all"),
    ("own-data", "none", "all", "all"),
    ("held-out", "none", "all", "all"),
    ("fabricated", "none", "all", "all"),
    ("rank-one", "none", "all", "all"),
    ("conditioned", "none", "all", "all"),
    ("oracle", "none", "all", "all"),
    ("replay", "none", "any", "all"),
    ("designed", "origin", "all", "all"),
    ("designed", "positive", "all", "all"),
    ("designed", "ownership", "none", "none"),
    ("designed", "ownership-rows", "none", "none"),
    ("held-out", "ownership", "all", "all"),
    ("held-out", "ownership-rows", "all", "all"),
    ("fabricated", "ownership-rows", "all", "all"),
    ("conditioned", "slack", "any", "none"),
    ("held-out", "slack", "all", "all"),
    ("conditioned", "norm", "none", "none"),
    ("held-out", "norm", "all", "all"),
    ("designed", "admission", "any", "none"),
    ("held-out", "admission", "all", "all"),
    ("replay", "replay", "any", "all"),  # mixed with a row of one's own
    ("replay", "rows+replay", "any", "none"),
    ("held-out", "every-8", "all", "all"),
    ("designed", "detector", "any", "none"),
    ("held-out", "posterior", "any", "none"),
    ("designed", "posterior", "any", "none"),
    ("rank-one", "hardened", "any", "none"),
    ("held-out", "hardened", "any", "none"),
    ("averaging", "hardened", "any", "none"),
]


@pytest.mark.parametrize(("attack", "name", "labels", "replays"), OUTCOMES)
def test_documented_outcomes(setting, attack, name, labels, replays):
    score = run_cell(setting, Cell(attack, name, averaged=8))
    assert score.trials == len(setting.targets)
    for found, expected in ((score.labels, labels), (score.replays, replays)):
        if expected == "all":
            assert found == score.deleted == score.trials
        elif expected == "none":
            assert found == 0


@pytest.mark.parametrize("name", sorted(DEFENCES))
def test_honest_clients_are_served(setting, name):
    cost = honest_cell(setting, name)
    assert cost.deletions_served == cost.deletions_asked
    if name not in ("ownership", "minimum-rows", "rows+minimum"):  # they make clients wait, or delete whole messages
        assert cost.refused == 0
    exact = defence(name).exact
    assert (cost.head_error < 1e-9) == exact


@pytest.mark.parametrize(
    ("name", "stopped"), [("none", False), ("slack", True), ("ownership", True), ("admission", True)]
)
def test_burning_is_stopped_by_ownership(setting, name, stopped):
    score = run_cell(setting, Cell("burn", name))
    assert (score.refused > 0) == stopped
    if stopped:
        assert score.damage[0] < 0.5


def test_concurrent_updates_and_colluders(setting):
    quiet, busy = (run_cell(setting, Cell("own-data", "none", b, averaged=8)) for b in (False, True))
    assert quiet.labels == 5
    assert np.median(busy.feature_errors) > 1e3 * np.median(quiet.feature_errors)
    assert run_cell(setting, Cell("held-out", "admission", colluders=3)).labels == 5


def test_cells_are_deterministic(setting):
    cell = Cell("averaging", "posterior", True, averaged=4)
    assert run_cell(setting, cell) == run_cell(setting, cell)


def test_forks_do_not_touch_the_original(setting):
    fed = Federation(setting, defence("admission"))
    before = fed.server.ledger.summary
    assert fed.fork().delete(int(setting.targets[0])) is not None
    assert fed.server.ledger.summary == before


def test_the_run_resumes_and_keeps_going_after_a_failed_cell(tmp_path, monkeypatch):
    request = replace(SMALL, trials=2, attacks=("rank-one", "burn"), defences=("none", "float32"), busy=(False,))
    real, calls = runner.run_cell, []

    def fail_once(setting, cell):
        calls.append(cell)
        if len(calls) == 1:
            raise RuntimeError("boom")
        return real(setting, cell)

    monkeypatch.setattr(runner, "run_cell", fail_once)
    seen = []
    first = run(request, tmp_path, jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert [bool(r.get("error")) for r in first] == [False, True, False, False, False, False]
    assert seen[-1] == (6, 6)
    with (tmp_path / "cells.jsonl").open("ab") as file:
        file.write(b'\n{"key": "torn')
    second = run(request, tmp_path, jobs=1)
    assert len(calls) == 5  # only the failed one again
    assert not any(r.get("error") for r in second)
    assert run(request, tmp_path, jobs=1) == second


def test_rows_and_recommendation():
    def records(name, labels, lost, stale, refused=0, replays=0):
        honest = {"accuracy_lost": lost, "staleness": stale, "head_error": 0.0, "sent": 9, "refused": refused}
        honest |= {"deletions_asked": 4, "deletions_served": 4}
        score = {"trials": 10, "labels": labels, "replays": replays, "feature_errors": [0.1, 0.3], "damage": []}
        return [
            {"attack": "honest traffic", "defence": name, "busy": False, "honest": honest},
            {"attack": "designed", "defence": name, "busy": True, "score": score},
        ]

    rows = rows_of(
        records("none", 10, 0.0, 0.0, replays=10)
        + records("noise", 1, 0.1, 0.0)
        + records("late", 0, 0.0, 5.0)
        + records("rude", 0, 0.0, 0.0, refused=1)
        + records("lucky", 4, 0.3, 0.0),
        chance=0.1,
    )
    assert [row.defence for row in rows] == ["none", "noise", "late", "rude", "lucky"]
    assert rows[0].worst == "designed (busy)" and rows[0].feature_error == pytest.approx(0.2)
    assert recommend(rows, Needs(0.2, 0.0)).defence == "noise"
    assert recommend(rows, Needs(0.2, 10.0)).defence == "late"
    assert recommend(rows, Needs(0.0, 0.0)).defence == "none"
    assert recommend(rows[1:2], Needs(0.0, 0.0)) is None
    # Neither is refuted: what a told attacker can replay decides, not the luck of a few labels.
    luckier = replace(rows[1], defence="luckier", label_rate=0.0, told_replay_rate=1.0)
    assert recommend([luckier, replace(rows[1], told_replay_rate=0.0)], Needs()).defence == "noise"
    assert rows[0].refutes() and not rows[1].refutes()
    # 4 of 10 at 15%: 1 - (0.85^10 + 10 0.15 0.85^9 + 45 0.15^2 0.85^8 + 120 0.15^3 0.85^7) = 0.0500
    assert rows[4].p_value == pytest.approx(0.04997, abs=1e-5) and rows[4].refutes()
    assert upper(0, 20) == pytest.approx(1 - 0.025 ** (1 / 20))
    assert upper(20, 20) == 1.0 and not math.isnan(rows[0].label_upper)
    with pytest.raises(InputError):
        Needs(-1.0)


def test_advice_is_a_configuration_that_a_server_loads(setting, tmp_path):
    for name in ("admission+detector", "hardened", "rows+replay", "admission+posterior+every-8"):
        made = defence(name).advice(Context(setting))
        text = dump(made, tmp_path / "server.toml")
        assert "seed" not in text and "key" not in text
        server = build_server(Ledger.zeros(setting.d, setting.classes, 1e-3), load(tmp_path / "server.toml"))
        assert server.head().d == setting.d


def test_the_command_writes_matrix_figure_and_configuration(tmp_path):
    options = ["--dim", "24", "--trials", "2", "--averaged", "4", "--jobs", "1", "--max-accuracy-loss", "100"]
    options += ["--attack", "rank-one", "--attack", "replay", "--defence", "none", "--defence", "posterior", "--quick"]
    result = CliRunner().invoke(app, ["advise", *options, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Verdict: within at most 100 points" in result.output
    assert {p.name for p in tmp_path.iterdir()} >= {"server.toml", "leak_against_cost.png", "leak_against_cost.svg"}
    again = CliRunner().invoke(app, ["advise", *options, "--out", str(tmp_path), "--json"])
    facts = json.loads(again.stdout)
    assert facts["recommended"] in ("none", "posterior") and facts["failures"] == []
    assert {row["defence"] for row in facts["defences"]} == {"none", "posterior"}


def test_the_detector_is_measured_on_whole_sequences(setting):
    flagged, clients = false_positives(setting, logs=6)
    assert clients == 48 and flagged <= 6
    seen = {p.attack: p for p in power(setting, runs=1)}
    assert all(seen[name].flagged == 1 for name in ("designed", "own-data", "held-out"))
    assert seen["conditioned"].flagged == 0  # the norm test refused it: one replay is no sequence


def test_bad_input_is_refused_in_words():
    with pytest.raises(InputError, match="did you mean 'rank-one'"):
        Request(attacks=("rank_one",))
    with pytest.raises(InputError, match="did you mean 'posterior'"):
        Request(defences=("posteriors",))
    with pytest.raises(DataError, match="too few"):
        make_setting((np.ones((50, 20)), np.zeros(50, int)), (np.ones((5, 20)), np.zeros(5, int)), 2, trials=1)


def test_calibration_uses_nobody_elses_rows(setting):
    parts = [*setting.honest, *setting.reserve, setting.own, setting.held_out, setting.calibration]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert all(block.d == setting.d for block in honest_blocks(setting, 4))
    assert len(list(honest_logs(setting, 2, 3))) == 2
    assert set(ALL_ATTACKS) >= {"designed", "held-out", "burn", "replay", "oracle"}


def test_integrity_attacks_alone_end_in_a_verdict_too(tmp_path):
    options = ["--dim", "24", "--trials", "2", "--attack", "burn", "--attack", "replay", "--defence", "none"]
    result = CliRunner().invoke(app, ["advise", *options, "--no-concurrent", "--jobs", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "no attack that reads records was run" in result.output
    burnt = CliRunner().invoke(
        app, ["advise", *options[:6], "--defence", "slack", "--jobs", "1", "--out", str(tmp_path)]
    )
    assert burnt.exit_code == 0, burnt.output
    tables = (tmp_path / "matrix.md").read_text()
    assert "burn" in tables and "nan" not in tables


def test_informed_reads_exact_heads_and_not_masked_ones(setting):
    assert run_cell(setting, Cell("informed", "none", averaged=8)).labels == len(setting.targets)
    assert run_cell(setting, Cell("redraw", "none", averaged=8)).labels == len(setting.targets)
    masked = run_cell(setting, Cell("informed", "mask", averaged=8))
    assert masked.replays == 0 and masked.labels < len(setting.targets)


def test_the_attacker_has_full_feature_rank_where_the_data_have_it(setting):
    for rows in (setting.own, setting.held_out):
        assert np.linalg.matrix_rank(setting.features[rows]) == setting.d
    everybody = [*setting.honest, *setting.reserve, setting.own, setting.held_out, setting.calibration]
    assert sorted(np.concatenate(everybody)) == list(range(len(setting.labels)))
