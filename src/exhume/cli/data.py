"""`exhume data`: list, fetch and encode data sets, and show what is in the home folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from exhume.cli._options import (
    MOST_SEED,
    Command,
    JsonTo,
    check_file,
    completing,
    console_for,
    json_text,
    put_json,
    say,
)

if TYPE_CHECKING:
    from exhume.data import FeatureSet

__all__ = ["app"]

app = typer.Typer(help="Data sets, encoders and the feature cache.", no_args_is_help=True)

Home = Annotated[
    Path | None, typer.Option(help="Home folder (default: EXHUME_HOME, else the platform's cache folder).")
]

OWN_ABOUT = "your own features and labels: --features FILE (.npz, .safetensors, or .npy with --labels)"
SOURCES = {
    "computed": "computed and cached in",
    "cache": "from the cache",
    "EXHUME_DATA_PATH": "precomputed, from EXHUME_DATA_PATH:",
    "file": "read from",
}


@app.command("list", cls=Command)
def list_(json: JsonTo = None) -> None:
    """List the known data sets and encoders."""
    from exhume.data import encoders, sets

    check_file("json", json)
    data: list[dict[str, object]] = [
        {
            "name": entry.name,
            "about": entry.about,
            "classes": entry.classes,
            "train": entry.train_rows,
            "test": entry.test_rows,
            "bundled": entry.holding is None,
        }
        for entry in sets.REGISTRY.values()
    ]
    models: list[dict[str, object]] = [
        {"name": entry.name, "about": entry.about, "dim": entry.dim, "extra": entry.extra}
        for entry in encoders.REGISTRY.values()
    ]
    own = {"name": sets.OWN, "about": OWN_ABOUT}
    put_json(json_text({"data": [*data, own], "encoders": models}), json)
    console = console_for(json)
    table = Table("data", "train", "test", "classes", "what it is", box=None, header_style="bold")
    for row in data:
        table.add_row(*(str(row[key]) for key in ("name", "train", "test", "classes", "about")))
    table.add_row(sets.OWN, "-", "-", "-", OWN_ABOUT)
    console.print(table)
    say(console, "")
    table = Table("encoder", "features", "extra", "what it is", box=None, header_style="bold")
    for row in models:
        table.add_row(str(row["name"]), str(row["dim"] or "any"), str(row["extra"] or "-"), str(row["about"]))
    console.print(table)


@app.command(cls=Command)
def fetch(
    name: Annotated[str, typer.Argument(help="A data set, or an encoder whose weights to fetch.")],
    home: Home = None,
    json: JsonTo = None,
) -> None:
    """Fetch a data set or an encoder's weights; content counts only if its SHA-256 is the known one."""
    from exhume.data.fetch import fetch as bring
    from exhume.data.progress import fetch_bar

    check_file("json", json)
    with fetch_bar(Console(stderr=True)) as report:
        fetched = bring(name, home, report)
    facts = {
        "name": fetched.name,
        "folder": str(fetched.folder) if fetched.sources else None,
        "files": fetched.sources,
        "failures": list(fetched.failures),
    }
    put_json(json_text(facts), json)
    console = console_for(json)
    if not fetched.sources:
        say(console, f"{name} is bundled: there is nothing to fetch.")
        return
    for failure in fetched.failures:
        typer.echo(f"not from {failure}", err=True)
    for file, source in fetched.sources.items():
        say(console, f"{file}: {'already there' if source == 'home' else f'from {source}'}, SHA-256 as known")
    say(console, f"{name} is in {fetched.folder}")


@app.command(cls=Command)
def features(
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set: {data}, or 'features' for your own file. (default: digits)",
            autocompletion=completing("data"),
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder: {encoders}; by default random-relu, and none for your own file.",
            autocompletion=completing("encoders"),
        ),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Number of features, where the encoder leaves it open.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of random encoders.")] = 0,
    home: Home = None,
    device: Annotated[str, typer.Option(help="Torch device, such as cpu or cuda.")] = "cpu",
    batch: Annotated[int, typer.Option(help="Images encoded together.")] = 256,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of both splits.")] = None,
    weights: Annotated[Path | None, typer.Option(help="A weight file to use in place of the fetched one.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The hash that the weight file must have.")] = None,
    resize: Annotated[
        str, typer.Option(help="How networks' images are resized: float, or 8-bit as torchvision does with PIL images.")
    ] = "float",
    file: Annotated[Path | None, typer.Option("--features", help="Your own features, in place of --data.")] = None,
    labels: Annotated[Path | None, typer.Option(help="The labels, if your features are a .npy file.")] = None,
    compute: Annotated[
        bool, typer.Option("--compute", help="Compute even if EXHUME_DATA_PATH has precomputed features.")
    ] = False,
    json: JsonTo = None,
) -> None:
    """Extract features and cache them; a run that was interrupted goes on where it stopped."""
    from exhume.data import load_features
    from exhume.data.progress import extraction_bar
    from exhume.data.sets import OWN

    check_file("json", json)
    chosen = data or (OWN if file is not None else "digits")
    with extraction_bar(Console(stderr=True)) as tick:
        found = load_features(
            chosen,
            encoder or ("none" if chosen == OWN else "random-relu"),
            dim=dim,
            seed=seed,
            home=home,
            path=file,
            labels=labels,
            limit=limit,
            weights=weights,
            sha256=sha256,
            resize=resize,
            device=device,
            batch=batch,
            given=not compute,
            keep=True,
            tick=tick,
        )
    facts = _describe(found)
    put_json(json_text(facts), json)
    console = console_for(json)
    say(
        console,
        f"{found.data} under {found.encoder}: {facts['train']} train and {facts['test']} test rows, "
        f"{found.dim} features, {found.classes} classes",
    )
    say(console, f"fingerprint {found.fingerprint}")
    say(console, f"{SOURCES[found.source]} {found.path}")


@app.command(cls=Command)
def info(home: Home = None, json: JsonTo = None) -> None:
    """Show what is in the home folder and on EXHUME_DATA_PATH: sizes, hashes and paths."""
    from exhume.data.inventory import inventory

    check_file("json", json)
    found = inventory(home)
    put_json(json_text(found), json)
    console = console_for(json)
    say(console, f"home folder: {found['home']}")
    _section(console, "fetched files", found["files"], ("holding", "file", "size", "state", "sha256"))
    _section(
        console, "cached features", found["features"], ("folder", "data", "encoder", "dim", "size", "state", "key")
    )
    for folder in found["data_path"]:
        say(console, f"\nEXHUME_DATA_PATH: {folder['path']}{'' if folder['exists'] else ' (not a folder)'}")
        _section(console, "files and features", folder["files"], ("file", "size", "serves"))


def _section(console: Console, title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if not rows:
        say(console, f"\nno {title}")
        return
    say(console, "")
    table = Table(*columns, title=title, title_justify="left", box=None, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(column, row[column]) for column in columns))
    console.print(table)


def _cell(column: str, value: object) -> str:
    if column == "size" and isinstance(value, int):
        return f"{value / 1e6:.1f} MB" if value >= 100_000 else f"{value} B"
    return str(value)[:12] if column in ("sha256", "key") else str(value)


def _describe(found: FeatureSet) -> dict[str, Any]:
    return {
        "data": found.data,
        "encoder": found.encoder,
        "dim": found.dim,
        "classes": found.classes,
        "train": len(found.train_labels),
        "test": len(found.test_labels),
        "source": found.source,
        "fingerprint": found.fingerprint,
        "path": None if found.path is None else str(found.path),
    }
