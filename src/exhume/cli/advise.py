"""`exhume advise`: every attack against every defence, leak against cost, and a configuration for stated needs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from exhume.cli._options import (
    MOST_SEED,
    Jobs,
    JsonTo,
    check_file,
    check_folder,
    completing,
    console_for,
    json_text,
    listed,
    put_json,
    say,
)

if TYPE_CHECKING:
    from exhume.advise.advice import Advised
    from exhume.simulate.scenario import Scenario

__all__ = ["advise"]


def advise(
    data: Annotated[
        str | None, typer.Option(help="Data set: {data}. (default: digits)", autocompletion=completing("data"))
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Encoder: {encoders}. (default: random-relu)", autocompletion=completing("encoders")),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Number of features, where the encoder leaves it open.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="Your own features: .npz, .safetensors, .csv, .parquet or .npy.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="The labels, if your features are a .npy file.")] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Deletions per cell (default 20, quick 10; hardened: enough to find chance + 10 points)."),
    ] = None,
    jobs: Jobs = 0,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of everything.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for results, figure and configuration.")] = Path("advice"),
    json: JsonTo = None,
    max_accuracy_loss: Annotated[float, typer.Option(help="Test accuracy you can give up, in points.")] = 0.2,
    max_staleness: Annotated[
        float, typer.Option(help="Accepted changes that the public head may lag behind, on average.")
    ] = 0.0,
    colluders: Annotated[int, typer.Option(help="Identities that one attacker may have.")] = 1,
    averaged: Annotated[int | None, typer.Option(help="Heads averaged on each side (default 100, quick 25).")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of both splits.")] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="Comma list of {attacks}. (default: all)", autocompletion=completing("attacks")),
    ] = None,
    defence: Annotated[
        list[str] | None,
        typer.Option(help="Comma list of {defences}. (default: all)", autocompletion=completing("defences")),
    ] = None,
    detector: Annotated[
        bool, typer.Option("--detector", help="Only measure the sequence detector: false positives and power.")
    ] = False,
    concurrent: Annotated[
        bool | None, typer.Option(help="Also attack while honest clients send updates (default: unless quick).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer attacks, defences and deletions; quiet server.")
    ] = False,
    collusion: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure every attack against every defence, and recommend one for your needs.

    Finished cells are kept in the output folder: a run that was interrupted goes on where it stopped.
    """
    from exhume.advise.advice import Needs
    from exhume.advise.python import carry_out
    from exhume.advise.run import Request, matrix_of
    from exhume.jobs.progress import progress_bar

    needs = Needs(max_accuracy_loss, max_staleness)
    base = Request()
    own = features is not None or data == "features"
    model = encoder or ("none" if own else base.encoder)
    request = Request(
        data=data or ("features" if own else base.data),
        encoder=model,
        dim=dim if dim is not None or model != "random-relu" else base.dim,
        trials=trials,
        seed=seed,
        colluders=colluders if collusion is None else collusion,
        averaged=averaged if averaged is not None else 25 if quick else base.averaged,
        limit=limit,
        points=max_accuracy_loss or base.points,
        attacks=tuple(listed(attack)),
        defences=tuple(listed(defence)),
        busy=base.busy if (concurrent if concurrent is not None else not quick) else (False,),
        quick=quick,
    )
    check_file("json", json)
    if not detector:
        check_folder("out", out)
    matrix = matrix_of(request, path=features, labels=labels)
    if detector:
        _detector(matrix.scenario, json)
        return
    with progress_bar(Console(stderr=True), "advising") as progress:
        advice = carry_out(matrix, needs, out, jobs=jobs, progress=progress)
    put_json(json_text(advice.facts()), json)
    console = console_for(json)
    console.print(_table(advice.rows, console.width))
    say(
        console,
        f"labels: right by the best attack (chance {advice.chance:.0%}), with the upper end of its 95% interval; "
        "the goal: at most five points above chance, no replay; could have missed: rates up to this pass for chance at "
        "least 1 time in 5; replays: deletions recovered and put back; accuracy lost and burn: points; "
        "told: put back by an attacker who was told the block; "
        f"refused: honest messages. All columns are in {advice.files['tables']}.",
    )
    for cell in advice.failures:
        typer.echo(f"cell failed: {cell.attack} against {cell.defence}: {cell.error}", err=True)
    files = advice.files
    say(console, f"\nfigure: {files['png']} and {files['svg']}; tables: {files['tables']}")
    say(console, f"every attack against every defence: {', '.join(v for k, v in files.items() if k in MATRIX)}")
    say(console, str(advice))


def _detector(scenario: Scenario, json: str | None) -> None:
    from dataclasses import asdict

    from exhume.advise.detection import detector_of, false_positives, power

    flagged, clients = false_positives(scenario)
    rule, found = detector_of(scenario), list(power(scenario))
    facts = {"rate": rule.rate, "flagged": flagged, "clients": clients, "power": [asdict(p) for p in found]}
    put_json(json_text(facts), json)
    table = Table("attack", "flagged", "before the deletion", "messages", box=None, header_style="bold")
    for p in found:
        table.add_row(p.attack, f"{p.flagged}/{p.sequences}", f"{p.probing_flagged}/{p.sequences}", f"{p.messages:.0f}")
    console = console_for(json)
    console.print(table)
    say(console, f"Verdict: {flagged} of {clients} fresh honest clients are flagged (calibrated for {rule.rate:.1%}).")


COLUMNS = (
    "defence", "reads labels", "labels", "by", "replays", "told", "burn", "accuracy lost", "staleness", "exact",
    "honest refused", "deletions served",
)  # fmt: skip


MATRIX = ("csv", "matrix_png", "matrix_svg")

NARROW = 150
"""Columns of a terminal below which the table has what decides alone; all of it is in matrix.md."""


def _table(rows: list[Advised], width: int) -> Table:
    if width < NARROW:
        return _short_table(rows)
    table = Table(*COLUMNS, box=None, header_style="bold")
    for row in rows:
        table.add_row(
            row.defence,
            row.reads_labels(),
            "-" if math.isnan(row.label_rate) else f"{row.label_rate:.0%} (to {row.label_upper:.0%})",
            row.worst,
            f"{row.replay_rate:.0%}",
            _number(row.told_replay_rate, ".0%"),
            _number(row.damage, ".1f"),
            f"{row.accuracy_lost:.2f}",
            f"{row.staleness:.1f}",
            "yes" if row.exact else f"to {row.head_error:.0e}",
            f"{row.refused}/{row.sent}",
            f"{row.deletions_served}/{row.deletions_asked}",
        )
    return table


def _short_table(rows: list[Advised]) -> Table:
    """Return what leaks and what it costs, in 80 columns; what reads labels beyond the goal is red."""
    table = Table(box=None, header_style="bold")
    for name in ("defence", "reads labels", "labels", "by", "lost", "refused"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            row.defence,
            row.reads_labels(),
            "-" if math.isnan(row.label_rate) else f"{row.label_rate:.0%} (to {row.label_upper:.0%})",
            row.worst,
            f"{row.accuracy_lost:.2f}",
            f"{row.refused}/{row.sent}",
            style="red" if row.refutes() else "",
        )
    return table


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
