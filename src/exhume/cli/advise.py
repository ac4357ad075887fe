"""`exhume advise`: every attack against every defence, leak against cost, and a configuration for stated needs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from exhume.audit.advise.advice import Needs, Row
    from exhume.audit.advise.run import Request
    from exhume.audit.advise.setting import Setting

__all__ = ["advise"]


def advise(
    data: Annotated[str, typer.Option(help="Data set.")] = "digits",
    encoder: Annotated[str, typer.Option(help="Encoder.")] = "random-relu",
    dim: Annotated[int | None, typer.Option(help="Number of features, where the encoder leaves it open.")] = None,
    trials: Annotated[int | None, typer.Option(help="Deletions per cell (default 20, quick 10).")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: one per core).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for results, figure and configuration.")] = Path("advice"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    max_accuracy_loss: Annotated[float, typer.Option(help="Test accuracy you can give up, in points.")] = 0.2,
    max_staleness: Annotated[
        float, typer.Option(help="Accepted changes that the public head may lag behind, on average.")
    ] = 0.0,
    collusion: Annotated[int, typer.Option(help="Identities that one attacker may have.")] = 1,
    averaged: Annotated[int | None, typer.Option(help="Heads averaged on each side (default 100, quick 25).")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of both splits.")] = None,
    attack: Annotated[list[str] | None, typer.Option(help="Only this attack; repeat for more.")] = None,
    defence: Annotated[list[str] | None, typer.Option(help="Only this defence; repeat for more.")] = None,
    detector: Annotated[
        bool, typer.Option("--detector", help="Only measure the sequence detector: false positives and power.")
    ] = False,
    concurrent: Annotated[
        bool | None, typer.Option(help="Also attack while honest clients send updates (default: unless quick).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer attacks, defences and deletions; quiet server.")
    ] = False,
) -> None:
    """Measure every attack against every defence, and recommend one for your needs.

    Finished cells are kept in the output folder: a run that was interrupted goes on where it stopped.
    """
    from exhume.audit.advise.advice import Needs, recommend, rows_of
    from exhume.audit.advise.run import QUICK_ATTACKS, QUICK_DEFENCES, Request, run, setting_of

    needs = Needs(max_accuracy_loss, max_staleness)
    base = Request()
    request = Request(
        data=data,
        encoder=encoder,
        dim=dim if dim is not None or encoder != "random-relu" else base.dim,
        trials=trials or (10 if quick else base.trials),
        seed=seed,
        collusion=collusion,
        averaged=averaged or (25 if quick else base.averaged),
        limit=limit,
        points=max_accuracy_loss or base.points,
        attacks=tuple(attack or (QUICK_ATTACKS if quick else base.attacks)),
        defences=tuple(defence or (QUICK_DEFENCES if quick else base.defences)),
        busy=base.busy if (concurrent if concurrent is not None else not quick) else (False,),
    )
    if detector:
        _detector(setting_of(request), as_json)
        return
    with _bar() as bars:
        task = bars.add_task("cells", total=None)

        def progress(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        records = run(request, out, jobs=jobs, progress=progress)
    chance = 1.0 / setting_of(request).classes
    rows = rows_of(records, chance)
    chosen = recommend(rows, needs)
    paths = _write(request, records, rows, chosen, needs, chance, out)
    failures = [r for r in records if r.get("error")]
    if as_json:
        typer.echo(json.dumps(_facts(request, rows, chosen, needs, chance, failures, paths), indent=2))
        return
    _print(rows, chance)
    for r in failures:
        typer.echo(f"cell failed: {r['attack']} against {r['defence']}: {r['error']}", err=True)
    typer.echo(f"\nfigure: {paths['png']} and {paths['svg']}; tables: {paths['tables']}")
    typer.echo(_verdict(chosen, needs, chance, paths))


def _detector(setting: Setting, as_json: bool) -> None:
    from dataclasses import asdict

    from exhume.audit.advise.detection import detector_of, false_positives, power

    flagged, clients = false_positives(setting)
    rule, found = detector_of(setting), list(power(setting))
    if as_json:
        facts = {"rate": rule.rate, "flagged": flagged, "clients": clients, "power": [asdict(p) for p in found]}
        typer.echo(json.dumps(facts, indent=2))
        return
    table = Table("attack", "flagged", "before the deletion", "messages", box=None, header_style="bold")
    for p in found:
        table.add_row(p.attack, f"{p.flagged}/{p.sequences}", f"{p.probing_flagged}/{p.sequences}", f"{p.messages:.0f}")
    Console().print(table)
    typer.echo(f"Verdict: {flagged} of {clients} fresh honest clients are flagged (calibrated for {rule.rate:.1%}).")


def _bar() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("advising"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _write(
    request: Request,
    records: list[dict[str, Any]],
    rows: list[Row],
    chosen: Row | None,
    needs: Needs,
    chance: float,
    out: Path,
) -> dict[str, str]:
    from exhume.audit.advise.defences import Context, defence
    from exhume.audit.advise.markdown import costs, matrix
    from exhume.audit.advise.plot import draw
    from exhume.audit.advise.run import setting_of
    from exhume.defence.config import dump

    title = f"{request.data}, {request.encoder}: {request.trials} deletions a cell"
    png, svg = draw(records, rows, chosen, needs, chance, out / "leak_against_cost", title)
    tables = out / "matrix.md"
    halves = [f"Labels read, quiet server:\n\n{matrix(records)}", f"Costs:\n\n{costs(rows)}"]
    if busy := matrix(records, busy=True):
        halves.insert(1, f"Labels read, with honest updates in between:\n\n{busy}")
    tables.write_text(f"# {title}\n\n" + "\n".join(halves), encoding="utf-8")
    paths = {"png": str(png), "svg": str(svg), "tables": str(tables), "cells": str(out / "cells.jsonl")}
    if chosen is not None:
        context = Context(setting_of(request), colluders=request.collusion)
        file = out / "server.toml"
        dump(defence(chosen.defence).advice(context), file)
        paths["configuration"] = str(file)
    return paths


def _print(rows: list[Row], chance: float) -> None:
    table = Table(
        "defence",
        "labels",
        "by",
        "feature error",
        "replays",
        "told",
        "burn",
        "accuracy lost",
        "staleness",
        "exact",
        "honest refused",
        "deletions served",
        box=None,
        header_style="bold",
    )
    for row in rows:
        table.add_row(
            row.defence,
            "-" if math.isnan(row.label_rate) else f"{row.label_rate:.0%} (to {row.label_upper:.0%})",
            row.worst,
            _number(row.feature_error, ".1e"),
            f"{row.replay_rate:.0%}",
            _number(row.told_replay_rate, ".0%"),
            _number(row.damage, ".1f"),
            f"{row.accuracy_lost:.2f}",
            f"{row.staleness:.1f}",
            "yes" if row.exact else f"to {row.head_error:.0e}",
            f"{row.refused}/{row.sent}",
            f"{row.deletions_served}/{row.deletions_asked}",
        )
    console = Console()
    # Piped output must not be folded to a width that nobody sees.
    Console(width=None if console.is_terminal else 220).print(table)
    typer.echo(
        f"labels: by the best attack, chance {chance:.0%}; replays: deletions recovered and put back; told: put back "
        "by an attacker who was told the block; burn and accuracy lost: points"
    )


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _verdict(chosen: Row | None, needs: Needs, chance: float, paths: dict[str, str]) -> str:
    limits = f"at most {needs.max_accuracy_loss:g} points and {needs.max_staleness:g} changes of delay"
    if chosen is None:
        return f"Verdict: no defence of the matrix serves everybody within {limits}. Allow more of one of them."
    if math.isnan(chosen.label_rate):
        return f"Verdict: within {limits}, '{chosen.defence}' is best; no attack that reads records was run. " + (
            f"Configuration: {paths['configuration']}"
        )
    goal = "is refuted" if chosen.refutes() else f"is not refuted (up to {chosen.label_upper:.0%} fits what was seen)"
    return (
        f"Verdict: within {limits}, '{chosen.defence}' leaks least: the best attack reads {chosen.label_rate:.0%} of "
        f"labels (chance {chance:.0%}) and puts back {chosen.replay_rate:.0%} of deletions. The goal (chance plus five "
        f"points, no replay) {goal}. Configuration: {paths['configuration']}"
    )


def _facts(
    request: Request,
    rows: list[Row],
    chosen: Row | None,
    needs: Needs,
    chance: float,
    failures: list[dict[str, Any]],
    paths: dict[str, str],
) -> dict[str, Any]:
    from dataclasses import asdict

    def plain(row: Row) -> dict[str, Any]:
        facts = asdict(row) | {"exact": row.exact, "fits": row.fits(needs), "refuted": row.refutes()}
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in facts.items()}

    return {
        "request": asdict(request),
        "needs": asdict(needs),
        "chance": chance,
        "defences": [plain(row) for row in rows],
        "recommended": None if chosen is None else chosen.defence,
        "failures": failures,
        "files": paths,
    }
