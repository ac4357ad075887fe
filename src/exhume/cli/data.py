"""`exhume data`: list, fetch and encode data sets, and show what is in the home folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from exhume.data import FeatureSet

__all__ = ["app"]

app = typer.Typer(help="Data sets, encoders and the feature cache.", no_args_is_help=True)

Home = Annotated[
    Path | None, typer.Option(help="Home folder (default: EXHUME_HOME, else the platform's cache folder).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

OWN_ABOUT = "your own features and labels: --features FILE (.npz, .safetensors, or .npy with --labels)"
SOURCES = {
    "computed": "computed and cached in",
    "cache": "from the cache",
    "EXHUME_DATA_PATH": "precomputed, from EXHUME_DATA_PATH:",
    "file": "read from",
}


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the known data sets and encoders."""
    from exhume.data import encoders, sets

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
    if as_json:
        own = {"name": sets.OWN, "about": OWN_ABOUT}
        typer.echo(json.dumps({"data": [*data, own], "encoders": models}, indent=2))
        return
    table = Table("data", "train", "test", "classes", "what it is", box=None, header_style="bold")
    for row in data:
        table.add_row(*(str(row[key]) for key in ("name", "train", "test", "classes", "about")))
    table.add_row(sets.OWN, "-", "-", "-", OWN_ABOUT)
    _print(table)
    typer.echo("")
    table = Table("encoder", "features", "extra", "what it is", box=None, header_style="bold")
    for row in models:
        table.add_row(str(row["name"]), str(row["dim"] or "any"), str(row["extra"] or "-"), str(row["about"]))
    _print(table)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set, or an encoder whose weights to fetch.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a data set or an encoder's weights; content counts only if its SHA-256 is the known one."""
    from exhume.data.fetch import fetch as bring
    from exhume.data.progress import fetch_bar

    with fetch_bar(Console(stderr=True)) as report:
        fetched = bring(name, home, report)
    if as_json:
        facts = {
            "name": fetched.name,
            "folder": str(fetched.folder) if fetched.sources else None,
            "files": fetched.sources,
            "failures": list(fetched.failures),
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    if not fetched.sources:
        typer.echo(f"{name} is bundled: there is nothing to fetch.")
        return
    for failure in fetched.failures:
        typer.echo(f"not from {failure}", err=True)
    for file, source in fetched.sources.items():
        typer.echo(f"{file}: {'already there' if source == 'home' else f'from {source}'}, SHA-256 as known")
    typer.echo(f"{name} is in {fetched.folder}")


@app.command()
def features(
    data: Annotated[str, typer.Option(help="Data set; 'features' for your own file.")] = "digits",
    encoder: Annotated[
        str | None, typer.Option(help="Encoder; by default random-relu, and none for your own file.")
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Number of features, where the encoder leaves it open.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of random encoders.")] = 0,
    home: Home = None,
    device: Annotated[str, typer.Option(help="Torch device, such as cpu or cuda.")] = "cpu",
    batch: Annotated[int, typer.Option(help="Images encoded together.")] = 256,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of both splits.")] = None,
    weights: Annotated[Path | None, typer.Option(help="A weight file to use in place of the fetched one.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The hash that the weight file must have.")] = None,
    resize: Annotated[
        str, typer.Option(help="How networks' images are resized: float, or 8-bit as torchvision does with PIL images.")
    ] = "float",
    file: Annotated[Path | None, typer.Option("--features", help="Your own features, with --data features.")] = None,
    labels: Annotated[Path | None, typer.Option(help="The labels, if your features are a .npy file.")] = None,
    compute: Annotated[
        bool, typer.Option("--compute", help="Compute even if EXHUME_DATA_PATH has precomputed features.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Extract features and cache them; a run that was interrupted goes on where it stopped."""
    from exhume.data import load_features
    from exhume.data.progress import extraction_bar
    from exhume.data.sets import OWN

    with extraction_bar(Console(stderr=True)) as tick:
        found = load_features(
            data,
            encoder or ("none" if data == OWN else "random-relu"),
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
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(
        f"{found.data} under {found.encoder}: {facts['train']} train and {facts['test']} test rows, "
        f"{found.dim} features, {found.classes} classes"
    )
    typer.echo(f"fingerprint {found.fingerprint}")
    typer.echo(f"{SOURCES[found.source]} {found.path}")


@app.command()
def info(home: Home = None, as_json: AsJson = False) -> None:
    """Show what is in the home folder and on EXHUME_DATA_PATH: sizes, hashes and paths."""
    from exhume.data.inventory import inventory

    found = inventory(home)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"home folder: {found['home']}")
    _section("fetched files", found["files"], ("holding", "file", "size", "state", "sha256"))
    _section("cached features", found["features"], ("folder", "data", "encoder", "dim", "size", "state", "key"))
    for folder in found["data_path"]:
        typer.echo(f"\nEXHUME_DATA_PATH: {folder['path']}{'' if folder['exists'] else ' (not a folder)'}")
        _section("files and features", folder["files"], ("file", "size", "serves"))


def _section(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if not rows:
        typer.echo(f"\nno {title}")
        return
    typer.echo("")
    table = Table(*columns, title=title, title_justify="left", box=None, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(column, row[column]) for column in columns))
    _print(table)


def _cell(column: str, value: object) -> str:
    if column == "size" and isinstance(value, int):
        return f"{value / 1e6:.1f} MB" if value >= 100_000 else f"{value} B"
    return str(value)[:12] if column in ("sha256", "key") else str(value)


def _print(table: Table) -> None:
    console = Console()
    # Piped output must not be folded to a width that nobody sees.
    Console(width=None if console.is_terminal else 200).print(table)


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
