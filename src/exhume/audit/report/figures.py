"""The report's figures: a drawing, one sentence on what to see in it, and words for those who cannot see it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from exhume.audit.plan import BARE
from exhume.audit.records import CellRecord, Finding, TrialRecord
from exhume.audit.report.pictures import Gallery
from exhume.audit.verdict import quantity
from exhume.errors import InputError
from exhume.plotting import PALETTE
from exhume.protocol.head import significant_bits

__all__ = ["INK", "Illustration", "accuracy_figure", "bound_figure", "digits_figure", "label_figure", "rank_figure"]

INK = "#1b2a33"
"""The colour of text and axes; the report replaces it by the page's own, so that dark mode works."""

MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", ":", "-.")

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "exhume",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class Illustration:
    """A figure with its words."""

    name: str
    title: str
    see: str
    """One sentence: what to see in it."""
    alt: str
    figure: Figure


@contextmanager
def style() -> Iterator[None]:
    """Apply the house style while a figure is made or saved."""
    with mpl.rc_context(_STYLE):
        yield


WIDTH = 4.7
"""Inches: so narrow that the words of a figure can be read on a phone, which shows all of it."""


def _figure(height: float = 3.1, rows: int = 1) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, 1, squeeze=False)[:, 0]


def _note(axis: Any, x: float, y: float, text: str, left: bool = False) -> None:
    side: dict[str, Any] = {"ha": "right" if left else "left"}
    axis.annotate(text, (x, y), (-5 if left else 5, 0), textcoords="offset points", fontsize=9, va="center", **side)


def rank_figure(curves: Sequence[CellRecord], dim: int, classes: int) -> Illustration | None:
    """Rank and smallest singular value of the response stack against the number of responses."""
    shown = _one_each(curves)
    if not shown:
        return None
    least = math.ceil(dim / classes)
    with style():
        figure, (left, right) = _figure(5.2, rows=2)
        for i, (name, cell) in enumerate(shown.items()):
            kind: dict[str, Any] = {"color": PALETTE[i % 6], "ls": DASHES[i % 4], "marker": MARKERS[i % 6]}
            kind |= {"ms": 7 - 2 * min(i, 2), "mfc": "none" if i == 0 else PALETTE[i % 6]}
            left.plot([p.responses for p in cell.curve], [p.rank for p in cell.curve], label=name, **kind)
            known = [(p.responses, p.sigma_min) for p in cell.curve if p.sigma_min]
            if known:
                right.semilogy(*zip(*known, strict=True), label=name, **kind)
        last = max(p.responses for cell in shown.values() for p in cell.curve)
        for axis in (left, right):
            axis.axvline(least, color=INK, lw=1, ls=(0, (4, 3)))
            axis.set_xlabel("responses")
            axis.set_xlim(0, last * 1.05)
        left.set(title=f"rank (needed: {dim})", ylim=(0, dim * 1.12))
        _note(left, least, dim * 1.06, f"ceil({dim}/{classes}) = {least}", least > 0.6 * last)
        right.set_title("smallest singular value / largest")
        # Two servers side by side have longer names, which would cover the curves.
        beside = any(cell.server != BARE for cell in shown.values())
        left.legend(**{"loc": "lower right"} if beside else {"loc": "upper left", "bbox_to_anchor": (0, 0.9)})
    reach = [
        f"{name} has it after {m} responses" if (m := _full_at(cell, dim)) else f"{name} never gets it"
        for name, cell in shown.items()
    ]
    see = f"Left of the dashed line no probe can have the full rank {dim} that Theorem 1 asks for; {', '.join(reach)}."
    return Illustration("rank", "How many answers it takes", see, f"Two line plots. {see}", figure)


def _one_each(cells: Sequence[CellRecord]) -> dict[str, CellRecord]:
    """Return one curve per probe: head formats differ too little. A configured server is shown beside the bare one."""
    beside = any(cell.server != BARE for cell in cells)
    shown = {f"{c.probe}, {server_of(c)}" if beside else c.probe: c for c in reversed(cells) if c.curve}
    return dict(reversed(shown.items()))


def _full_at(cell: CellRecord, dim: int) -> int | None:
    return next((p.responses for p in cell.curve if p.rank == dim), None)


def bound_figure(trials: Sequence[TrialRecord]) -> Illustration | None:
    """Measured error of the differenced gram against its bound."""
    points = [
        (server_of(t), t.kind, t.amplification, r.relerr_gram)
        for t in trials
        if (r := t.of("difference")) is not None and t.amplification and r.relerr_gram
    ]
    if not points:
        return None
    servers, kinds = list(dict.fromkeys(p[0] for p in points)), list(dict.fromkeys(p[1] for p in points))
    with style():
        figure, (axis,) = _figure(4.2)
        low, high = min(p[3] for p in points) / 3, max(p[2] for p in points) * 3
        axis.loglog([low, high], [low, high], color=INK, lw=1, ls=(0, (4, 3)))
        for i, server in enumerate(servers):
            for j, kind in enumerate(kinds):
                own = np.array([p[2:] for p in points if p[:2] == (server, kind)])
                if len(own):
                    look = {"color": PALETTE[i], "marker": MARKERS[j], "s": 18, "alpha": 0.7, "lw": 0}
                    axis.scatter(own[:, 0], own[:, 1], label=f"{server}, {kind}", **look)
        axis.set(xlabel="bound on the relative error", ylabel="measured relative error of the deleted gram")
        figure.legend(loc="outside lower center", ncols=2)
    ratios = np.array([p[3] / p[2] for p in points])
    over = int((ratios > 1 + 1e-9).sum())
    none = "No point lies" if over == 0 else f"{over} of {len(points)} points lie"
    see = (
        f"{none} above the dashed line, where error equals bound: of {len(points)} trials the median uses "
        f"{np.median(ratios):.0%} of it; smaller deletions and coarser heads move up along it."
    )
    return Illustration("bound", "Measured error against the bound", see, f"Scatter plot on log axes. {see}", figure)


def label_figure(findings: Sequence[Finding]) -> Illustration | None:
    """Label recovery per precision and recovery method with exact intervals."""
    shown = [f for f in findings if f.labels_correct is not None]
    if not shown:
        return None
    kinds = list(dict.fromkeys((f.probe, f.recovery) for f in shown))
    servers = list(dict.fromkeys(server_of(f) for f in shown))
    chance = max(f.labels_chance or 0.0 for f in shown)
    with style():
        figure, (axis,) = _figure(1.1 + 0.42 * len(kinds) * len(servers) + 0.25 * len(servers))
        ticks = []
        for i, server in enumerate(servers):
            for j, kind in enumerate(kinds):
                f = next((f for f in shown if (f.probe, f.recovery) == kind and server_of(f) == server), None)
                if f is None or f.labels_correct is None or f.labels_low is None or f.labels_high is None:
                    continue
                y, share = -(i * (len(kinds) + 0.6) + j), f.labels_correct / f.trials
                ticks.append(y)
                name = f"{server}, {f.probe}, {f.recovery}"
                if not f.identified:
                    axis.annotate(f"{name}: no estimate", (0.0, y), (2, 6), textcoords="offset points", fontsize=9)
                    continue
                axis.annotate(name, (0.0, y), (2, 6), textcoords="offset points", fontsize=9)
                span = [[share - f.labels_low], [f.labels_high - share]]
                look: dict[str, Any] = {"color": PALETTE[i % 6], "marker": MARKERS[j % 6], "capsize": 3, "ms": 6}
                axis.errorbar([share], [y], xerr=span, **look)
        # In pieces, with a gap where the name of the next row is written.
        axis.vlines([chance] * len(ticks), [y - 0.4 for y in ticks], [y + 0.16 for y in ticks], color=INK, lw=1)
        _note(axis, chance, 1.0, f"guessing {chance:.0%}")
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.set(xlim=(0, 1.03), xlabel="share of labels recovered (95% interval)")
        axis.set_ylim(min(ticks) - 0.5, 1.4)
        axis.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    beat = sum("label" in f.reached for f in shown)
    see = f"{beat} of {len(shown)} combinations beat guessing (upright strokes): {_extremes(shown)}."
    return Illustration("labels", "Whose label came out", see, f"Dot plot with intervals. {see}", figure)


def _extremes(shown: Sequence[Finding]) -> str:
    ordered = sorted(shown, key=lambda f: (f.labels_correct or 0) / f.trials)
    worst, best = ordered[0], ordered[-1]
    text = [f"{f.labels_correct} of {f.trials} with {f.probe}, {server_of(f)}, {f.recovery}" for f in (best, worst)]
    same = worst.labels_correct == best.labels_correct
    return f"all have {best.labels_correct} of {best.trials} right" if same else f"best {text[0]}, worst {text[1]}"


def accuracy_figure(trials: Sequence[TrialRecord]) -> Illustration | None:
    """Test accuracy before the deletion, after it, and after the recovered block is replayed."""
    servers = list(dict.fromkeys(server_of(t) for t in trials))
    rows = [(kind, means) for kind in dict.fromkeys(t.kind for t in trials) if (means := _means(trials, kind, servers))]
    if not rows:
        return None
    names = ["before", "after deletion", *(f"after replay ({_as_heads(server)})" for server in servers)]
    with style():
        figure, (axis,) = _figure(1.2 + 0.24 * len(rows) * (len(names) + 0.8))
        _bars(axis, names, rows)
        figure.legend(loc="outside lower center", ncols=1 if len(names) > 4 else 2)
    kind, means = max(rows, key=lambda row: row[1][0] - row[1][1])
    replayed = [value for value in means[2:] if math.isfinite(value)]
    back = f"the replay brings it back to {max(replayed):.1%}" if replayed else "nothing was replayed"
    see = f"Deleting a {kind} takes mean test accuracy from {means[0]:.1%} to {means[1]:.1%}; {back}."
    return Illustration("accuracy", "What deletion and replay do to the model", see, f"Bar chart. {see}", figure)


def _means(trials: Sequence[TrialRecord], kind: str, servers: Sequence[str]) -> list[float]:
    """Return mean accuracies of one kind of deletion: before, after, and after the replay on each server."""
    group = [t for t in trials if t.kind == kind and t.accuracy_after is not None]
    if not group:
        return []
    replayed = (
        [r.accuracy_replay for t in group if server_of(t) == server for r in t.recoveries] for server in servers
    )
    return [_mean([t.accuracy_before for t in group]), _mean([t.accuracy_after for t in group]), *map(_mean, replayed)]


def _bars(axis: Any, names: Sequence[str], rows: Sequence[tuple[str, list[float]]]) -> None:
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        where = [g + (i - (len(names) - 1) / 2) * width for g in range(len(rows))]
        hatch = ("", "///", "", "...")[i] if i < 4 else "xx"
        bars = axis.barh(where, [m[i] for _, m in rows], width * 0.92, label=name, color=PALETTE[i % 6], hatch=hatch)
        labels = [f"{m[i]:.1%}" if math.isfinite(m[i]) else "none" for _, m in rows]
        axis.bar_label(bars, labels, fontsize=8, padding=2)
    axis.set_yticks(range(len(rows)), [kind for kind, _ in rows])
    axis.set(xlabel="test accuracy", xlim=(0, 1.14))
    axis.invert_yaxis()
    axis.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))


class _Served(Protocol):
    @property
    def server(self) -> str: ...

    @property
    def precision(self) -> str: ...


def server_of(record: _Served) -> str:
    """Return how a figure calls the server of a record: the paper's by its precision, the operator's by its name."""
    return record.precision if record.server == BARE else record.server


def _as_heads(server: str) -> str:
    return f"{server} heads" if _is_precision(server) else f"the settings {server}"


def _is_precision(name: str) -> bool:
    try:
        return bool(significant_bits(name))
    except InputError:
        return False


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else math.nan


def digits_figure(found: Gallery | None) -> Illustration | None:
    """Show deleted images beside what came out."""
    if found is None:
        return None
    servers = list(found.recovered)
    with style():
        count = len(found.originals)
        lines = {"deleted": found.originals}
        lines |= {f"recovered\n{name}": images for name, images in found.recovered.items()}
        if found.null is not None:
            lines["null:\nlabel alone"] = found.null
        figure = Figure(figsize=(0.95 * count + 1.4, 0.95 * len(lines) + 0.1), layout="constrained")
        axes = figure.subplots(len(lines), count, squeeze=False)
        for i, (name, images) in enumerate(lines.items()):
            for j in range(count):
                _picture(axes[i][j], images[j])
            axes[i][0].set_ylabel(name, rotation=0, ha="right", va="center")
    errors = [
        f"{quantity(error)} with {_as_heads(server)}"
        if math.isfinite(error := found.error(server))
        else f"nothing came back with {_as_heads(server)}"
        for server in servers
    ]
    if found.null_error is not None and math.isfinite(found.null_error):
        errors.append(f"{quantity(found.null_error)} for the null")
    off = f"median pixel error {'; '.join(errors)}"
    see = f"Top: {count} deleted images; below: what the attacker made of the heads ({off})."
    how = f" Probe {found.probe}, recovery {found.recovery}; pixels: {found.how}."
    return Illustration("images", "What was deleted, and what came back", see + how, f"Image grid. {see}", figure)


def _picture(axis: Any, image: Any) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    axis.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axis.set_facecolor("white")
    axis.spines[:].set_visible(True)
