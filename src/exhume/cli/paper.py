"""`exhume paper`: run the paper's tables and figures, and compare what came out with what was published."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

from exhume.cli._options import (
    MOST_SEED,
    Command,
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
from exhume.errors import unknown_name

if TYPE_CHECKING:
    from exhume.paper.comparisons import Comparison

__all__ = ["app"]

app = typer.Typer(
    help="The paper's tables and figures: run them, compare with the published ones.", no_args_is_help=True
)

RESULTS = Path("results")
_ROOMY = 110
"""Columns of a terminal from which on `compare` shows kind and gap as well."""
SIDES = {"agree": True, "differ": False}
_PLACES = ("context", "names", "home", "as_json", "scheduler", "features", "renew")

Out = Annotated[Path, typer.Option(help="Folder for results.md, results.json, figures and CSV.")]
PageFile = Annotated[Path | None, typer.Option(help="The Markdown page (default: results.md in --out).")]


@app.command("list", cls=Command)
def list_(as_json: JsonTo = None) -> None:
    """List the tables and figures."""
    from exhume.paper.published import source
    from exhume.paper.registry import about, tables

    check_file("json", as_json)
    facts = [
        {"name": t.name, "kind": "figure" if t.draw else "table", "title": t.title, "about": about(t)}
        for t in tables().values()
    ]
    put_json(json_text(facts), as_json)
    shown = RichTable("name", "title", box=None, header_style="bold")
    shown.add_column("in the paper", min_width=27)
    for table in tables().values():
        title = f"figure: {table.title}" if table.draw else table.title
        shown.add_row(table.name, title, source(table.name) or "-")
    console_for(as_json).print(shown)


@app.command(cls=Command)
def run(
    context: typer.Context,
    names: Annotated[
        list[str], typer.Argument(help="Comma list of {tables}, or all.", autocompletion=completing("tables"))
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(help="Comma list of {data}. (default: mnist,cifar10)", autocompletion=completing("data")),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder: {encoders}. (default: resnet18; none with --features)", autocompletion=completing("encoders")
        ),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Number of features, for encoders that leave it open.")] = None,
    features: Annotated[Path | None, typer.Option(help="Your own features, in place of --data.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A stated subsample: minutes instead of hours.")] = False,
    size: Annotated[
        list[str] | None, typer.Option(help="Comma list of other sizes of parts, such as partitions=5.")
    ] = None,
    clients: Annotated[int, typer.Option(min=2, help="Clients in a split.")] = 50,
    alpha: Annotated[float, typer.Option(help="Dirichlet concentration of the splits.")] = 0.05,
    jobs: Jobs = 0,
    backend: Annotated[str, typer.Option(help="joblib or dask.", autocompletion=completing("backends"))] = "joblib",
    scheduler: Annotated[str | None, typer.Option(help="Address of a running Dask scheduler.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Added to every seed; 0 is the paper's own choice.")
    ] = 0,
    out: Out = RESULTS,
    page: PageFile = None,
    as_json: JsonTo = None,
    home: Annotated[Path | None, typer.Option(help="Home folder: features and finished trials.")] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace only these tables in the page and JSON that are there.")
    ] = False,
) -> None:
    """Run tables and figures; finished trials are kept, so an interrupted run goes on where it stopped."""
    from exhume.capacity import require_federation
    from exhume.data.progress import extraction_bar
    from exhume.jobs.progress import progress_bar
    from exhume.jobs.run import BACKENDS
    from exhume.jobs.store import Store
    from exhume.paper.execute import default_store, execute
    from exhume.paper.feature_source import TICK, FeatureSource
    from exhume.paper.registry import by_names, runnable
    from exhume.paper.render import Page, console_table, tall_table
    from exhume.paper.render import as_json as rendered
    from exhume.paper.renew import agreeing_page, renewed_comparisons, renewed_page
    from exhume.paper.study import FULL, QUICK, Study

    by_names(listed(names))
    sizes = (QUICK if quick else FULL).resized(listed(size))
    chosen = listed(data) or (["features"] if features is not None else ["mnist", "cifar10"])
    check_folder("out", out)
    check_file("page", page)
    check_file("json", as_json)
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    require_federation(dim, jobs)
    place, file = (None if path is None else str(path) for path in (home, features))
    model = encoder or ("none" if features else "resnet18")
    studies = [Study(FeatureSource(name, model, dim, place, file), sizes, seed, clients, alpha) for name in chosen]
    tables, left_out = runnable(listed(names), studies)
    text = page or out / "results.md"
    before = _earlier(text, out / "results.json") if renew else None
    store = Store(default_store(home))
    with extraction_bar(Console(stderr=True)) as told:
        TICK.set(told)
        for study in studies:
            study.source.load()
        work = [job for table in tables for study in studies for job in table.jobs(study)]
        TICK.set(None)
    for name, reason in left_out.items():
        typer.echo(f"left out: {name} {reason}", err=True)
    with progress_bar(Console(stderr=True), "trials") as progress:
        results = execute(work, store, workers=jobs, backend=backend, scheduler=scheduler, progress=progress)
    made = Page(tables, studies, results, _command(context), store.seconds(job.key for job in results))
    cells = made.comparisons()
    console = console_for(as_json)
    for table in tables:
        wide = console_table(table, cells[table.name])
        console.print(wide if _fits(console, wide) else tall_table(table, cells[table.name]))
    if before is None:
        made.write(text, out)
    else:
        old, renewed = before[0], [table.name for table in tables]
        cells = renewed_comparisons(before[1], cells)
        everything = [cell for found in cells.values() for cell in found]

        def edited(fresh: str) -> str:
            return agreeing_page(renewed_page(old, fresh, renewed, made.command), everything)

        made.write(text, out, edit=edited)
    put_json(rendered(cells), str(out / "results.json"))
    put_json(rendered(cells), as_json)
    shown = [cell for found in cells.values() for cell in found]
    say(console, _quick_verdict(shown) if quick else _verdict(shown))
    say(console, f"written: {text}")


@app.command(cls=Command)
def compare(
    out: Out = RESULTS,
    as_json: JsonTo = None,
    only: Annotated[
        str | None,
        typer.Option(help="List only cells that agree, or that differ.", autocompletion=lambda: list(SIDES)),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="Comma list of {tables}. (default: all)", autocompletion=completing("tables")),
    ] = None,
) -> None:
    """Compare the last results with the published ones, cell by cell; the summary is of all that was chosen."""
    from exhume.errors import DataError
    from exhume.paper.comparisons import tallied
    from exhume.paper.registry import by_names
    from exhume.paper.render import TALLY_COLUMNS, read_comparisons

    check_file("json", as_json)
    if only is not None and only not in SIDES:
        raise unknown_name("only", only, SIDES)
    wanted = {chosen.name for chosen in by_names(listed(table))} if table else None
    path = out / "results.json" if out.suffix != ".json" else out
    if not path.is_file():
        raise DataError(f"{path} does not exist: run `exhume paper run all` first")
    everything = [cell for cell in read_comparisons(path) if cell.comparable]
    found = [cell for cell in everything if wanted is None or cell.table in wanted]
    judged = [{"kind": cell.kind, "agrees": cell.agrees, "gap": cell.gap, **cell.plain()} for cell in found]
    put_json(json_text(judged), as_json)
    console = console_for(as_json)
    listed_cells = [cell for cell in found if only is None or cell.agrees == SIDES[only]]
    for name, group in groupby(listed_cells, key=lambda cell: cell.table):
        console.print(_judged(name, list(group), console.width >= _ROOMY))
    summary = RichTable(*TALLY_COLUMNS, box=None, header_style="bold")
    for tally in tallied(found):
        summary.add_row(*tally.line())
    console.print(summary)
    say(console, _verdict(found))


def _judged(name: str, cells: list[Comparison], roomy: bool) -> RichTable:
    """Return the cells of one table with their verdicts; kind and gap only where there is room for them."""
    shown = RichTable(title=name, title_justify="left", title_style="bold", box=None, header_style="bold")
    shown.add_column("cell")
    for title in (
        "measured",
        "published",
        *(("kind",) if roomy else ()),
        "verdict",
        *(("log10 gap",) if roomy else ()),
    ):
        shown.add_column(title, no_wrap=True)
    for cell in cells:
        gap = "" if cell.gap is None else f"{cell.gap:+.2f}"
        more = ((cell.kind or "",), (gap,)) if roomy else ((), ())
        verdict = "agrees" if cell.agrees else "DIFFERS"
        place, values = f"{cell.data}, {cell.row}, {cell.column}", (str(cell.measured), str(cell.published))
        shown.add_row(place, *values, *more[0], verdict, *more[1], style="" if cell.agrees else "red")
    return shown


def _fits(console: Console, table: RichTable) -> bool:
    """Whether a table can be shown without cutting its values."""
    return table.__rich_measure__(console, console.options.update(max_width=10_000)).maximum <= console.width


@app.command("page", cls=Command)
def page_(out: Out = RESULTS, page: PageFile = None) -> None:
    """Write the page again from results.json: tables, CSV and the figures of wide tables. Nothing is measured."""
    from exhume.files import write_files
    from exhume.paper.registry import tables
    from exhume.paper.render import beside
    from exhume.paper.renew import rendered_page, renewed_comparisons

    check_file("page", page)
    text = page or out / "results.md"
    old, found = _earlier(text, out / "results.json")
    cells = renewed_comparisons(found, {})
    known = [table for table in tables().values() if table.name in cells]
    place = Path(os.path.relpath(out, text.parent)).as_posix()
    write_files({text: rendered_page(old, known, cells, place), **beside(known, cells, out)})
    say(console_for(None), f"written: {text}")


def _earlier(page: Path, results: Path) -> tuple[str, list[Comparison]]:
    """Return the page and the cells of an earlier run, which are asked for before any work."""
    from exhume.errors import DataError
    from exhume.paper.render import read_comparisons

    for path in (page, results):
        if not path.is_file():
            raise DataError(f"{path} does not exist: it is the page or the cells of an earlier `exhume paper run`")
    return page.read_text(encoding="utf-8"), read_comparisons(results)


def _verdict(found: list[Comparison]) -> str:
    """Say in one sentence how far the results agree."""
    from exhume.paper.comparisons import differences, tallied
    from exhume.paper.render import sentence

    tallies = tallied(found)
    if not tallies:
        return "No cell is compared number by number: the encoder is not the paper's."
    unexplained = [gap for gap in differences(found) if gap.reason is None]
    why = f"{len(unexplained)} of them without a written reason yet" if unexplained else "each with a written reason"
    return sentence(tallies) if tallies[-1].agree == tallies[-1].cells else f"{sentence(tallies)[:-1]}, {why}."


def _quick_verdict(found: list[Comparison]) -> str:
    """Say what a quick run can and cannot say."""
    compared = [cell for cell in found if cell.comparable]
    if not compared:
        return _verdict(found)
    agree = sum(cell.agrees for cell in compared)
    return (
        f"A quick run: everything works, on samples smaller than the paper's. {agree} of {len(compared)} cells agree "
        "all the same. The others differ as small samples do: that is not a failed reproduction. Run it without "
        "--quick (hours) to judge."
    )


def _command(context: typer.Context) -> str:
    """Return the command that was given, without places on this machine."""
    words = ["exhume", "paper", "run", *listed(context.params["names"])]
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
            items = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
            words += [flag, ",".join(items)]
    return " ".join(words)
