"""Writes what an audit found: one self-contained HTML file, JSON, a CSV of trials, PNG and SVG figures."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from exhume.audit.levels import LEVELS, MEANING, THRESHOLDS
from exhume.audit.records import RecoveryRecord, Report, TrialRecord
from exhume.audit.records_defence import REMEDY_FILE
from exhume.audit.report.exposure import exposure_view
from exhume.audit.report.figures import INK, Illustration, style
from exhume.audit.report.flow import flow_of
from exhume.audit.report.folding import fold, fold_effects
from exhume.audit.report.prose import passages
from exhume.audit.report.terms import TERMS, commands_marked, term
from exhume.audit.verdict import quantity
from exhume.audit.verdict_defended import is_proved
from exhume.files import write_files

__all__ = ["Drawn", "csv_text", "render_html", "report_text", "write_report"]


@dataclass(frozen=True)
class Drawn:
    """A figure as vector graphics and as pixels."""

    picture: Illustration
    svg: str
    png: bytes


def write_report(
    folder: Path, report: Report, trials: Sequence[TrialRecord], pictures: Sequence[Illustration], threat: str
) -> Path:
    """Write everything into a folder, or nothing if that fails; returns the HTML file."""
    figures, page = folder / "figures", folder / "report.html"
    drawn = [Drawn(picture, _svg(picture), _png(picture)) for picture in pictures]
    contents: dict[Path, str | bytes] = {figures / f"{one.picture.name}.png": one.png for one in drawn}
    contents |= {figures / f"{one.picture.name}.svg": one.svg for one in drawn}
    contents |= {
        folder / "report.json": report_text(report),
        folder / "trials.csv": csv_text(trials),
        page: render_html(report, drawn, threat),
    }
    if report.remedy is not None:
        contents[folder / REMEDY_FILE] = report.remedy.configuration
    write_files(contents)
    for old in figures.glob("*.*"):
        if old.suffix in (".png", ".svg") and old not in contents:
            old.unlink()
    return page


_SERVICE = ("deletion_refused", "head_withheld", "accuracy_public", "withheld", "exposure")
"""Columns of trials.csv that only an audit of somebody's settings has."""


def report_text(report: Report) -> str:
    """Return the report as JSON of the published schema."""
    return report.model_dump_json(indent=2, by_alias=True) + "\n"


def csv_text(trials: Sequence[TrialRecord]) -> str:
    """Return one row per trial and recovery; a trial without an estimate has one row with empty cells."""
    nested = {"recoveries", "service"}
    trial_names = [name for name in TrialRecord.model_fields if name not in nested]
    own_names = list(RecoveryRecord.model_fields)
    served = list(_SERVICE) if any(trial.service is not None for trial in trials) else []
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow([*trial_names, *served, *own_names])
    for trial in trials:
        common = [getattr(trial, name) for name in trial_names]
        common += ["" if trial.service is None else getattr(trial.service, name) for name in served]
        for found in trial.recoveries or (None,):
            writer.writerow([*common, *("" if found is None else getattr(found, name) for name in own_names)])
    return stream.getvalue()


def render_html(report: Report, pictures: Sequence[Drawn], threat: str) -> str:
    """Return the whole page: styles and figures inline, nothing loaded from anywhere."""
    folder = files("exhume.audit.report") / "templates"
    environment = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quantity"] = quantity
    environment.filters["counts"] = _counts
    environment.filters["commands"] = commands_marked
    environment.filters["share"] = lambda value: "-" if value is None else f"{value:.0%}"
    environment.globals["t"] = term
    headline, *lines = report.verdict.text.splitlines()
    return environment.get_template("report.html.j2").render(
        report=report,
        headline=headline.split(". ", 1)[-1],
        lines=[line.strip() for line in lines],
        figures=[_embedded(picture) for picture in pictures],
        threat=passages(threat),
        levels=LEVELS,
        meanings=[(level, MEANING[level]) for level in LEVELS],
        terms=TERMS,
        folded=fold(report.findings),
        effects=[] if report.defence is None else fold_effects(report.defence.effects, report.findings),
        flow=flow_of(report),
        proved=is_proved(report.verdict.guarantee),
        remedy_file=REMEDY_FILE,
        limits=THRESHOLDS,
        exposure=exposure_view(report.cells),
        css=(folder / "report.css").read_text(encoding="utf-8"),
        script=(folder / "report.js").read_text(encoding="utf-8"),
    )


def _counts(found: Mapping[str, int]) -> str:
    """Write counts by rule: the total, and whose they are."""
    rules = ", ".join(f"{rule} {n}" for rule, n in found.items())
    return f"{sum(found.values())} ({rules})" if rules else "0"


def _embedded(drawn: Drawn) -> dict[str, Any]:
    """Return a figure for the page: vector graphics in the page's own ink, or pixels as a data URI."""
    picture, svg = drawn.picture, drawn.svg
    view: dict[str, Any] = {"name": picture.name, "title": picture.title, "see": picture.see, "alt": picture.alt}
    if picture.name == "images":
        view["png"] = base64.b64encode(drawn.png).decode()
        return view
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    # Ids must differ between the figures of one page.
    svg = re.sub(r'\bid="', f'id="{picture.name}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{picture.name}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', _opening(picture.name), svg, count=1)
    view["svg"] = svg
    return view


def _opening(name: str) -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        rf'viewBox="\1" role="img" aria-labelledby="{name}-alt" focusable="false">'
    )


def _svg(picture: Illustration) -> str:
    stream = io.StringIO()
    with style():
        picture.figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _png(picture: Illustration) -> bytes:
    stream = io.BytesIO()
    with style():
        picture.figure.savefig(stream, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    return stream.getvalue()
