"""The matrix: every attack against every defence runs, and the documented outcomes hold."""

import csv
import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from exhume.advise import run as runner
from exhume.advise.advice import Advised, Needs, detectable, recommend, summarise
from exhume.advise.calibrated import honest_blocks, honest_logs
from exhume.advise.defences import defence, defences
from exhume.advise.detection import false_positives, power
from exhume.advise.markdown import costs, table_of_cells
from exhume.advise.records import HONEST, CellResult, HonestRecord, ScoreRecord
from exhume.advise.run import Cell, Request, matrix_of, run_matrix
from exhume.cli.main import app
from exhume.defence.config import build_server, dump, load
from exhume.errors import InputError
from exhume.protocol import Ledger
from exhume.simulate import attackers
from exhume.simulate.federation import Federation

SMALL = Request(dim=24, trials=5, averaged=8)


@pytest.fixture(scope="module")
def dealt():
    return matrix_of(SMALL)


@pytest.fixture(scope="module")
def play(dealt):
    """Play one cell of a small matrix."""

    def played(attack, name, busy=False, **more):
        matrix = replace(dealt, request=replace(SMALL, **more)) if more else dealt
        found = CellResult.model_validate(runner.work(matrix, Cell(attack, name, busy)))
        assert found.error is None
        return found.honest if attack == HONEST else found.score

    return played


# (attack, defence, labels recovered, replays): "all", "none", "chance" (more deletions, and no more labels than chance
# plus five points explains) or "any"
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
    ("designed", "signed-messages", "all", "all"),
    ("designed", "positive-semidefinite", "all", "all"),
    ("designed", "ownership", "none", "none"),
    ("designed", "ownership+rows", "none", "none"),
    ("held-out", "ownership", "all", "all"),
    ("held-out", "ownership+rows", "all", "all"),
    ("fabricated", "ownership+rows", "all", "all"),
    ("conditioned", "algebraic-ownership", "any", "none"),
    ("held-out", "algebraic-ownership", "all", "all"),
    ("conditioned", "norm-limit", "none", "none"),
    ("held-out", "norm-limit", "all", "all"),
    ("designed", "admission", "any", "none"),
    ("held-out", "admission", "all", "all"),
    ("replay", "replay", "any", "all"),  # mixed with a row of one's own
    ("replay", "rows+replay", "any", "none"),
    ("held-out", "every-k-changes", "all", "all"),
    ("designed", "detector", "any", "none"),
    ("held-out", "posterior-noise", "any", "none"),
    ("designed", "posterior-noise", "any", "none"),
    ("rank-one", "hardened", "chance", "none"),
    ("held-out", "hardened", "chance", "none"),
    ("averaging", "hardened", "chance", "none"),
]


@pytest.mark.parametrize(("attack", "name", "labels", "replays"), OUTCOMES)
def test_documented_outcomes(play, attack, name, labels, replays):
    score = play(attack, name, trials=40) if labels == "chance" else play(attack, name)
    assert score.trials == (40 if labels == "chance" else SMALL.trials)
    for found, expected in ((score.labels, labels), (score.replays, replays)):
        if expected == "all":
            assert found == score.deleted == score.trials
        elif expected == "none":
            assert found == 0
        elif expected == "chance":
            assert score.deleted == score.trials
            assert binom.sf(found - 1, score.trials, 1 / 10 + 0.05) > 1e-3


@pytest.mark.parametrize("name", sorted(defences()))
def test_honest_clients_are_served(dealt, play, name):
    cost = play(HONEST, name)
    assert cost.deletions_served == cost.deletions_asked
    if name not in (
        "ownership",
        "whole-messages",
        "minimum-rows",
        "rows+minimum",
        "hardened+messages",
    ):  # wait, or delete whole messages
        assert cost.refused == 0
    server = Federation.behind(dealt.scenario, defence(name).config(dealt.context()))
    assert (cost.head_error < 1e-9) == server.known.exact


def test_staleness_is_how_many_accepted_changes_the_public_head_lacks(dealt, play):
    assert play(HONEST, "none").staleness == 0.0
    k = defence("every-k-changes").config(dealt.context()).release[0].options["changes"]
    cost = play(HONEST, "every-k-changes")
    assert k > 1
    # After n changes the public head lacks n modulo k of them, counted from some head before the traffic.
    possible = [np.mean([(start + n) % k for n in range(1, cost.sent + 1)]) for start in range(k)]
    assert np.abs(np.array(possible) - cost.staleness).min() < 1e-9


@pytest.mark.parametrize(
    ("name", "stopped"), [("none", False), ("algebraic-ownership", True), ("ownership", True), ("admission", True)]
)
def test_burning_is_stopped_by_ownership(play, name, stopped):
    score = play("burn", name)
    assert bool(score.refused) == stopped
    if stopped:
        assert score.damage[0] < 0.5


def test_concurrent_updates_and_colluders(play):
    quiet, busy = (play("own-data", "none", b) for b in (False, True))
    assert quiet.labels == 5
    assert np.median(busy.feature_errors) > 1e3 * np.median(quiet.feature_errors)
    assert play("held-out", "admission", colluders=3).labels == 5


def test_cells_are_deterministic(play):
    assert play("averaging", "posterior-noise", True) == play("averaging", "posterior-noise", True)


def test_the_run_resumes_and_keeps_going_after_a_failed_cell(tmp_path, monkeypatch):
    request = replace(SMALL, trials=2, attacks=("rank-one", "burn"), defences=("none", "float32"), busy=(False,))
    dealt = matrix_of(request)
    real, calls = runner.besiege, []

    def fail_once(federation, attacker, records, **options):
        calls.append(attacker)
        if len(calls) == 1:
            raise RuntimeError("boom")
        return real(federation, attacker, records, **options)

    monkeypatch.setattr(runner, "besiege", fail_once)
    seen = []
    first = run_matrix(dealt, tmp_path, jobs=1, progress=lambda *counts: seen.append(counts))
    assert [bool(cell.error) for cell in first] == [False, True, False, False, False, False]
    assert seen[-1] == (6, 0, 6)
    with (tmp_path / "cells.jsonl").open("ab") as file:
        file.write(b'{"key": "torn')
    second = run_matrix(dealt, tmp_path, jobs=1)
    assert len(calls) == 5  # only the failed one again
    assert not any(cell.error for cell in second)
    assert run_matrix(dealt, tmp_path, jobs=1) == second
    assert len(calls) == 5


def test_rows_and_recommendation():
    def records(name, labels, lost, stale, refused=0, replays=0):
        honest = HonestRecord(
            accuracy=0.9,
            accuracy_lost=lost,
            staleness=stale,
            head_error=0.0,
            sent=9,
            refused=refused,
            deletions_asked=4,
            deletions_served=4,
        )
        score = ScoreRecord(trials=10, labels=labels, replays=replays, feature_errors=(0.1, 0.3))
        return [
            CellResult(attack=HONEST, defence=name, honest=honest),
            CellResult(attack="designed", defence=name, busy=True, score=score),
        ]

    rows = summarise(
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
    # Ten trials do not make a defence clean: one that was tried more often ranks before it, whatever was seen.
    tried = replace(rows[1], defence="tried", label_rate=0.12, detectable=0.2)
    assert rows[1].leak == rows[1].detectable > 0.4 and recommend([rows[1], tried], Needs()).defence == "tried"
    assert rows[4].leaks() and rows[4].leak == 0.4
    # 4 of 10 at 15%: 1 - (0.85^10 + 10 0.15 0.85^9 + 45 0.15^2 0.85^8 + 120 0.15^3 0.85^7) = 0.0500
    assert rows[4].p_value == pytest.approx(0.04997, abs=1e-5) and rows[4].refutes()
    assert not math.isnan(rows[0].label_upper)
    with pytest.raises(InputError):
        Needs(-1.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"p_value": 0.01, "p_chance": 0.01}, "yes, beyond the goal"),
        ({"p_value": 0.5, "p_chance": 0.01}, "yes; beyond the goal: not seen"),
        ({"p_value": 0.5, "p_chance": 0.5}, "not seen (could have missed up to 47%)"),
        ({"p_value": 0.5, "p_chance": 0.5, "detectable": math.nan}, "not seen (could have missed anything)"),
        ({"label_rate": math.nan}, "not tried"),
    ],
)
def test_what_was_not_seen_says_what_could_have_been_missed(changes, said):
    plain = {"label_rate": 0.2, "label_upper": 0.4, "p_value": 1.0, "p_chance": 1.0, "replay_rate": 0.0}
    values = {field.name: 0.0 for field in fields(Advised)} | plain | {"detectable": 0.47} | changes
    assert Advised(**values).reads_labels() == said


def test_every_row_says_which_rate_it_could_have_missed_whatever_was_seen():
    cells = []
    for name, trials, labels in (("read", 20, 20), ("clean", 200, 20), ("short", 1, 0)):
        honest = HonestRecord(
            accuracy=0.9, accuracy_lost=0.0, staleness=0.0, head_error=0.0,
            sent=1, refused=0, deletions_asked=1, deletions_served=1,
        )  # fmt: skip
        cells.append(CellResult(attack=HONEST, defence=name, honest=honest))
        cells.append(CellResult(attack="designed", defence=name, score=ScoreRecord(trials=trials, labels=labels)))
        cells.append(CellResult(attack="burn", defence=name, score=ScoreRecord(trials=1, damage=(1.0,))))
    rows = summarise(cells, 0.1)
    title, _, *lines = (line.strip("| ").split(" | ") for line in costs(rows).splitlines())
    at = title.index("could have missed")
    assert [line[at] for line in lines] == [
        f"{detectable(20, 1, 0.1):.0%}",
        f"{detectable(200, 1, 0.1):.0%}",
        "anything",
    ]
    found = {(x["defence"], x["attack"]): x for x in csv.DictReader(table_of_cells(cells, rows).splitlines())}
    assert float(found["clean", "designed"]["could_have_missed"]) == pytest.approx(detectable(200, 1, 0.1), abs=1e-3)
    assert found["short", "designed"]["could_have_missed"] == "anything"
    assert found["clean", "burn"]["could_have_missed"] == ""


def test_advice_is_a_configuration_that_a_server_loads(dealt, tmp_path):
    for name in ("admission+detector", "hardened", "rows+replay", "admission+noise+every"):
        made = defence(name).advice(dealt.context())
        text = dump(made, tmp_path / "server.toml")
        assert "seed" not in text and "key" not in text
        server = build_server(Ledger.zeros(24, 10, 1e-3), load(tmp_path / "server.toml"))
        assert server.shape == (24, 10)


def test_the_command_writes_matrix_figure_and_configuration(tmp_path):
    options = ["--dim", "24", "--trials", "2", "--averaged", "4", "--jobs", "1", "--max-accuracy-loss", "100"]
    options += ["--attack", "rank-one,replay", "--defence", "none,posterior_noise", "--quick"]
    result = CliRunner().invoke(app, ["advise", *options, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Verdict: within at most 100 points" in result.output
    figures = {f"{stem}.{kind}" for stem in ("leak_against_cost", "matrix") for kind in ("png", "svg")}
    assert {p.name for p in tmp_path.iterdir()} >= {"server.toml", "matrix.csv", *figures}
    with (tmp_path / "matrix.csv").open() as text:
        lines = {(line["defence"], line["attack"]): line for line in csv.DictReader(text)}
    assert len(lines) == 4 and lines["none", "rank-one"]["labels"] == lines["none", "replay"]["replays"] == "2"
    again = CliRunner().invoke(app, ["advise", *options, "--out", str(tmp_path), "--json"])
    facts = json.loads(again.stdout)
    assert facts["recommended"] in ("none", "posterior-noise") and facts["failures"] == []
    assert {row["defence"] for row in facts["defences"]} == {"none", "posterior-noise"}
    said = {row["reads_labels"] for row in facts["defences"]}
    tables = (tmp_path / "matrix.md").read_text()
    assert all(text in tables for text in said)
    assert max(line.count("|") for line in tables.splitlines()) <= 13


def test_the_detector_is_measured_on_whole_sequences(dealt):
    flagged, clients = false_positives(dealt.scenario, logs=6)
    assert clients == 48 and flagged <= 6
    seen = {p.attack: p for p in power(dealt.scenario, runs=1)}
    assert all(seen[name].flagged == 1 for name in ("designed", "own-data", "averaging"))
    assert seen["conditioned"].flagged == 0  # the norm test refused it: one replay is no sequence


def test_bad_input_is_refused_in_words():
    with pytest.raises(InputError, match="did you mean 'rank-one'"):
        Request(attacks=("rank-on",))
    with pytest.raises(InputError, match="did you mean 'posterior-noise'"):
        Request(defences=("posterior-nois",))
    assert Request(attacks=("rank_one",)).attacks == ("rank-one",)


def test_calibration_uses_nobody_elses_rows(dealt):
    s = dealt.scenario
    together = np.concatenate([*s.parts, *s.reserve, s.held_out, s.calibration])
    assert sorted(together) == list(range(len(s.labels)))
    assert all(block.d == s.d for block in honest_blocks(s, 4))
    assert len(list(honest_logs(s, 2, 3))) == 2
    assert set(attackers.REGISTRY) >= {"designed", "held-out", "burn", "replay", "oracle"}


def test_integrity_attacks_alone_end_in_a_verdict_too(tmp_path):
    options = ["--dim", "24", "--trials", "2", "--attack", "burn,replay", "--defence", "none"]
    result = CliRunner().invoke(app, ["advise", *options, "--no-concurrent", "--jobs", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "no attack that reads records was run" in result.output
    burnt = CliRunner().invoke(
        app, ["advise", *options[:6], "--defence", "algebraic-ownership", "--jobs", "1", "--out", str(tmp_path)]
    )
    assert burnt.exit_code == 0, burnt.output
    tables = (tmp_path / "matrix.md").read_text()
    assert "burn" in tables and "nan" not in tables


def test_informed_reads_exact_heads_and_not_masked_ones(play):
    assert play("informed", "none").labels == SMALL.trials
    assert play("redraw", "none").labels == SMALL.trials
    masked = play("informed", "deletion-mask")
    assert masked.replays == 0 and masked.labels < SMALL.trials


def test_one_identity_more_than_planned_for_has_a_key_too(play):
    """It once raised where messages are signed, and the cell was lost."""
    assert play("fold-pump", "signed-messages").messages > 0
