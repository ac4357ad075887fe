"""`exhume decode`: list, train and show decoders."""

from __future__ import annotations

import shlex
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from exhume.errors import InputError

if TYPE_CHECKING:
    from exhume.decode import Decoder, TrainingRecord
    from exhume.decode.show import Shown

__all__ = ["app"]

app = typer.Typer(help="From features to pictures: decoders and their measures.", no_args_is_help=True)

CURVE = 8
"""How many of a training's losses are said; the whole record is in `--json`."""

Home = Annotated[
    Path | None, typer.Option(help="Home folder (default: EXHUME_HOME, else the platform's cache folder).")
]
Data = Annotated[str, typer.Option(help="Data set.")]
Encoder = Annotated[str, typer.Option(help="Encoder whose features are decoded.")]


@app.command("list", cls=Command)
def list_(json: JsonTo = None) -> None:
    """List the known decoders."""
    from exhume.decode import REGISTRY

    check_file("json", json)
    rows = [{"name": entry.name, "about": entry.about, "extra": entry.extra} for entry in REGISTRY.values()]
    put_json(json_text(rows), json)
    table = Table("decoder", "extra", "what it draws", box=None, header_style="bold")
    for entry in REGISTRY.values():
        table.add_row(entry.name, entry.extra or "", entry.about)
    console_for(json).print(table)


@app.command(cls=Command)
def train(
    name: Annotated[str, typer.Argument(help="One of {decoders}.", autocompletion=completing("decoders"))],
    data: Data = "digits",
    encoder: Encoder = "random-relu",
    out: Annotated[Path | None, typer.Option(help="Where to write it (default: decoders/ in the home folder).")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Only the first training rows.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of training, where the decoder has any.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images in a step.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of everything random.")] = 0,
    device: Annotated[str | None, typer.Option(help="Torch device, such as cpu or cuda.")] = None,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Take no further step: write what an interrupted training's checkpoint has.")
    ] = False,
    home: Home = None,
    json: JsonTo = None,
) -> None:
    """Train a decoder on a data set's training rows; an interrupted diffusion training goes on where it stopped."""
    from exhume.data import load_features
    from exhume.data.home import home_folder
    from exhume.data.progress import extraction_bar
    from exhume.decode import REGISTRY, save
    from exhume.decode.progress import training_bar

    entry = REGISTRY.find(name)
    path = out or home_folder(home) / "decoders" / f"{name}-{data}-{encoder}.safetensors"
    check_file("out", path)
    check_file("json", json)
    checkpoint = path.with_suffix(".checkpoint.safetensors")
    given = {"steps": steps, "batch": batch, "device": device, "as_is": as_is or None}
    known = {field.name for field in fields(entry.build)}  # type: ignore[arg-type]
    for option, value in given.items():
        if value is not None and option not in known:
            raise InputError(option.replace("_", "-"), f"absent for the {name} decoder, which has none", value)
    own = {"home": home, "checkpoint": checkpoint}
    decoder = entry.build(
        **{key: value for key, value in given.items() if value is not None},
        **{key: value for key, value in own.items() if key in known},
    )
    console = Console(stderr=True)
    with extraction_bar(console) as tick:
        found = load_features(data, encoder, home=home, images=True, tick=tick)
    assert found.images is not None
    with training_bar(console) as step:
        decoder.fit(
            found.train_features[:rows],
            found.images.train_images[:rows],
            labels=found.train_labels[:rows],
            encoder=encoder,
            seed=seed,
            tick=step,
        )
    save(decoder, path)
    if not as_is:
        checkpoint.unlink(missing_ok=True)
    assert decoder.record is not None
    _tell(decoder.record, path, json, "written to")
    told = [str(path), "--data", data, *(["--home", str(home)] if home else [])]
    say(console_for(json), "its pictures, measured:")
    # In one line however long it is: a command that is folded cannot be pasted.
    console_for(json).print(
        shlex.join(["exhume", "decode", "show", *told]), soft_wrap=True, markup=False, highlight=False
    )


@app.command(cls=Command)
def show(
    file: Annotated[Path, typer.Argument(help="A trained decoder.")],
    data: Annotated[
        str | None, typer.Option(help="Data set whose test rows to draw; without it, only the record.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of the features (default: the one in the record).")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Test rows to draw and measure.")] = 200,
    out: Annotated[Path, typer.Option(help="The figure: ten targets, what was drawn, and the nulls.")] = Path(
        "decoded.png"
    ),
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of what is drawn.")] = 0,
    pull: Annotated[
        float | None, typer.Option(min=0, help="Guide a diffusion decoder by the frozen encoder: 0.3 was measured.")
    ] = None,
    home: Home = None,
    json: JsonTo = None,
) -> None:
    """Show a trained decoder: its record, and its measures and pictures on a data set's test rows (exact features)."""
    from exhume.decode import load
    from exhume.decode.show import draw, measured

    check_file("out", out if data is not None else None)
    check_file("json", json)
    decoder = load(file, encoder=encoder)
    assert decoder.record is not None
    if pull is not None:
        _guide(decoder, pull)
    if data is None:
        _tell(decoder.record, file, json, "read from")
        return
    shown = measured(decoder, data, home=home, rows=rows, seed=seed)
    draw(shown, out)
    facts = {"about": shown.about, "measures": shown.means(), "nulls": shown.nulls, "verdict": shown.verdict()}
    put_json(json_text({**facts, "figure": str(out)}), json)
    _tell_measures(shown, console_for(json))
    say(console_for(json), f"written: {out}")


def _guide(decoder: Decoder, pull: float) -> None:
    if decoder.name != "diffusion":
        raise InputError("pull", "left out, but for a diffusion decoder", f"{pull:g} for '{decoder.name}'")
    vars(decoder)["pull"] = pull


def _tell_measures(shown: Shown, console: Console) -> None:
    say(console, shown.about)
    table = Table("", box=None, header_style="bold")
    for column in ("PSNR, dB", "SSIM", "label", "found"):
        table.add_column(column, justify="right")
    for name in shown.pictures:
        scores = shown.scores[name]
        means = f"{scores.psnr.mean():.1f}", f"{scores.ssim.mean():.2f}"
        table.add_row(shown.heading(name), *means, f"{scores.label.sum()}", f"{scores.pixels.sum()}")
    console.print(table)
    say(console, f"label: the nearest of {shown.neighbours} training pictures, by pixels, has the row's label")
    say(console, f"found: the row's own picture is the nearest, by pixels, of {shown.crowd} test pictures")
    say(console, shown.verdict())


def _tell(record: TrainingRecord, path: Path, json: str | None, done: str) -> None:
    put_json(json_text({**asdict(record), "path": str(path)}), json)
    console = console_for(json)
    say(console, f"{record.decoder} decoder of {record.encoder} features: {record.rows} rows, seed {record.seed}")
    taken = f"{record.steps} steps of training" if record.steps else "closed form, no steps of training"
    say(console, f"{taken}; loss {record.loss:.3g}; hash of the data {record.data[:12]}")
    if record.history:
        way = record.history[:: -(-len(record.history) // CURVE)]
        say(console, "loss on the way: " + ", ".join(f"{loss:.3g} (step {step})" for step, loss in way))
    say(console, f"{done} {path}")
