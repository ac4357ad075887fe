"""`exhume paper`: run the paper's tables and figures, and compare what came out with what was published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from exhume.paper.records import Record

__all__ = ["app"]

app = typer.Typer(
    help="The paper's tables and figures: run them, compare with the published ones.", no_args_is_help=True
)

RESULTS = Path("results")
_PLACES = ("context", "names", "home", "as_json", "scheduler", "features", "renew")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path, typer.Option(help="Folder for results.md, results.json and the figures.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the tables and figures."""
    from exhume.paper.published import source
    from exhume.paper.registry import about, tables

    if as_json:
        facts = [
            {"name": t.name, "kind": "figure" if t.draw else "table", "title": t.title, "about": about(t)}
            for t in tables().values()
        ]
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    shown = RichTable("name", "kind", "title", "in the paper", box=None, header_style="bold")
    for table in tables().values():
        shown.add_row(table.name, "figure" if table.draw else "table", table.title, source(table.name) or "-")
    _console().print(shown)


@app.command()
def run(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="Tables and figures by name, or all.")],
    data: Annotated[
        list[str] | None, typer.Option(help="Data set; may be repeated (default: mnist and cifar10).")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder (default: resnet18; none with --features).")] = None,
    dim: Annotated[int | None, typer.Option(help="Number of features, for encoders that leave it open.")] = None,
    features: Annotated[Path | None, typer.Option(help="Your own features, with --data features.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A stated subsample: minutes instead of hours.")] = False,
    size: Annotated[
        list[str] | None, typer.Option(help="Another size of one part, such as partitions=5; may be repeated.")
    ] = None,
    clients: Annotated[int, typer.Option(help="Clients in a split.")] = 50,
    alpha: Annotated[float, typer.Option(help="Dirichlet concentration of the splits.")] = 0.05,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    backend: Annotated[str, typer.Option(help="joblib or dask.")] = "joblib",
    scheduler: Annotated[str | None, typer.Option(help="Address of a running Dask scheduler.")] = None,
    seed: Annotated[int, typer.Option(help="Added to every seed; 0 is the paper's own choice.")] = 0,
    out: Out = RESULTS,
    page: Annotated[Path | None, typer.Option(help="The Markdown page (default: results.md in --out).")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Also write one record per cell to this file.")] = None,
    home: Annotated[Path | None, typer.Option(help="Home folder: features and finished trials.")] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace only these tables in the page and JSON that are there.")
    ] = False,
) -> None:
    """Run tables and figures; finished trials are kept, so an interrupted run goes on where it stopped."""
    from exhume.data.progress import extraction_bar
    from exhume.errors import InputError
    from exhume.paper.execute import execute, progress_bar
    from exhume.paper.plan import FULL, QUICK, Study
    from exhume.paper.registry import by_names, runnable
    from exhume.paper.render import Page, console_table, read_records, write_json
    from exhume.paper.renew import renewed_page, renewed_records
    from exhume.paper.source import TICK, Source
    from exhume.paper.store import Store, default_store

    by_names(names)
    if jobs < 1:
        raise InputError("--jobs", "at least 1", jobs)
    plan = (QUICK if quick else FULL).resized(size or ())
    chosen = data or (["features"] if features is not None else ["mnist", "cifar10"])
    place = None if home is None else str(home)
    model = encoder or ("none" if features else "resnet18")
    file = None if features is None else str(features)
    studies = [
        Study(Source(name, model, dim, place, file), plan, seed, clients, alpha) for name in dict.fromkeys(chosen)
    ]
    tables, left_out = runnable(names, studies)
    for name, reason in left_out.items():
        typer.echo(f"left out: {name} {reason}", err=True)
    store = Store(default_store(home))
    with extraction_bar(Console(stderr=True)) as told:
        TICK.set(told)
        for study in studies:
            study.source.load()
        work = [job for table in tables for study in studies for job in table.jobs(study)]
        TICK.set(None)
    with progress_bar(Console(stderr=True)) as tick:
        results = execute(work, store, workers=jobs, backend=backend, scheduler=scheduler, tick=tick)
    made = Page(tables, studies, results, _command(context), store.seconds(job.key for job in results))
    cells = made.records()
    for table in tables:
        _console().print(console_table(table, cells[table.name]))
    text = page or out / "results.md"
    before = (text.read_text(encoding="utf-8"), read_records(out / "results.json")) if renew else None
    made.write(text, out)
    if before is not None:
        fresh = text.read_text(encoding="utf-8")
        text.write_text(renewed_page(before[0], fresh, [t.name for t in tables], made.command), encoding="utf-8")
        cells = renewed_records(before[1], cells)
    write_json(out / "results.json", cells)
    if as_json is not None:
        write_json(as_json, cells)
    _judge([record for found in cells.values() for record in found])
    typer.echo(f"written: {text}")


@app.command()
def compare(out: Out = RESULTS, as_json: AsJson = False) -> None:
    """Compare the last results with the published ones, cell by cell."""
    from exhume.errors import DataError
    from exhume.paper.render import read_records

    path = out / "results.json" if out.suffix != ".json" else out
    if not path.is_file():
        raise DataError(f"{path} does not exist: run `exhume paper run all` first")
    found = read_records(path)
    if as_json:
        gaps = [{"gap": r.gap, **r.plain()} for r in found if r.comparable]
        typer.echo(json.dumps(gaps, indent=2, ensure_ascii=False))
        return
    shown = RichTable(
        "table", "data", "row", "column", "measured", "published", "log10 gap", box=None, header_style="bold"
    )
    for record in found:
        if record.comparable:
            gap = "" if record.gap is None else f"{record.gap:+.2f}"
            place = (record.table, record.data, record.row, record.column)
            shown.add_row(*place, str(record.measured), str(record.published), gap)
    _console().print(shown)
    _judge(found)


def _judge(found: list[Record]) -> None:
    """Say in one sentence how far the results agree."""
    from exhume.paper.records import differences

    compared = [record for record in found if record.comparable]
    gaps = differences(found)
    unexplained = [gap for gap in gaps if gap.reason is None]
    if not compared:
        typer.echo("No cell is compared number by number: the encoder is not the paper's.")
        return
    typer.echo(
        f"{len(compared) - len(gaps)} of {len(compared)} comparable cells agree with the paper; "
        f"{len(gaps)} differ, {len(unexplained)} of them without a written reason."
    )


def _command(context: typer.Context) -> str:
    """Return the command that was given, without places on this machine."""
    words = ["exhume", "paper", "run", *context.params["names"]]
    for option in context.command.params:
        name = str(option.name)
        value, given = context.params.get(name), context.get_parameter_source(name)
        if (
            name in _PLACES
            or given is None
            or given.name == "DEFAULT"
            or (isinstance(value, Path) and value.is_absolute())
        ):
            continue
        flag = f"--{name}"
        if isinstance(value, bool):
            words.append(flag)
        else:
            for item in value if isinstance(value, list | tuple) else [value]:
                words += [flag, str(item)]
    return " ".join(words)


def _console() -> Console:
    console = Console()
    # Piped output must not be folded to a width that nobody sees.
    return console if console.is_terminal else Console(width=240)
