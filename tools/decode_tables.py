"""Writes the tables of docs/decode.md from docs/results/results.json, so that page and measurement cannot differ.

python tools/decode_tables.py            # rewrite the page
python tools/decode_tables.py --check    # exit code 1 if the page is not what the results say
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs/decode.md", ROOT / "docs/results/results.json"
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
PIXELS, SECOND = "re-identified, pixels", "re-identified, MobileNetV2"
WAYS = [f"{heads}, {method}" for method in ("rank-one", "difference") for heads in ("float64", "float32")]
NULLS = {"retrieval": "retrieval", "class mean": "class"}
"""Headings of the nulls, and the word by which their rows are known."""

Cells = Mapping[tuple[str, str, str, str], Any]
"""What was measured, by table, data set, row and column."""


def cells_of(found: Iterable[Mapping[str, Any]]) -> Cells:
    """Return the measured values of results.json."""
    return {(c["table"], c["data"], c["row"], c["column"]): c["measured"] for c in found}


def local(cells: Cells) -> str:
    """How often each picture of the local decoder leads back to the record."""
    ways = [f"`mlp`, {way.replace('difference', 'differencing')}" for way in WAYS]
    lines = [["data, partition", "own rows", "`mlp` PSNR / SSIM", *ways, "`ridge`", *NULLS, "`mlp` beats its nulls by"]]
    for data, start, name, own in _partitions(cells):

        def of(what: str, column: str, data: str = data, start: str = start) -> Any:
            return cells.get(("local_decoder", data, f"{start}: {what}", column))

        best = f"mlp, {WAYS[0]}"
        kinds = dict.fromkeys(row.split(": ", 1)[1] for _, _, row, _ in cells if row.startswith(f"{start}: "))
        nulls = [next(kind for kind in kinds if word in kind) for word in NULLS.values()]
        counts = [_count(of(what, PIXELS)) for what in (*(f"mlp, {way}" for way in WAYS), "ridge", *nulls)]
        lines.append([f"{DATA[data]}, {name}", own, _likeness(of, best), *counts, _won(of(best, "beats its nulls by"))])
    return _table(lines)


def errors(cells: Cells) -> str:
    """How far the recovered features are from the records' own, by recovery and precision of heads."""
    lines = [["data, partition", *(way.replace("difference", "differencing") for way in WAYS)]]
    for data, start, name, _ in _partitions(cells):
        found = [cells.get(("local_decoder", data, f"{start}: mlp, {way}", "feature error")) for way in WAYS]
        lines.append([f"{DATA[data]}, {name}", *(_size(value) for value in found)])
    return _table(lines)


def public(cells: Cells) -> str:
    """What the diffusion model of public images draws, beside its nulls."""
    columns = ["data", "picture", "PSNR / SSIM", "label by pixels", "re-identified: pixels", "MobileNetV2"]
    lines = [[*columns, "beats its nulls by"]]
    rows = dict.fromkeys((data, row) for table, data, row, _ in cells if table == "latent_diffusion")
    for data, row in sorted(rows, key=lambda key: list(DATA).index(key[0])):

        def of(what: str, column: str, data: str = data) -> Any:
            return cells.get(("latent_diffusion", data, what, column))

        counts = [_count(of(row, column)) for column in ("label, pixel 1-NN", PIXELS, SECOND)]
        lines.append([DATA[data], row, _likeness(of, row), *counts, _won(of(row, "beats its nulls by"))])
    return _table(lines)


TABLES = {"local": local, "errors": errors, "public": public}


def rewritten(page: str, cells: Cells) -> str:
    """Return the page with each table between its two marks made anew."""
    for name, make in TABLES.items():
        places = re.findall(rf"<!-- table {name} -->\n.*?\n<!-- end -->", page, re.DOTALL)
        if len(places) != 1:
            raise SystemExit(f"{PAGE} must have one place for the table {name}")
        page = page.replace(places[0], f"<!-- table {name} -->\n\n{make(cells)}\n\n<!-- end -->")
    return page


def _partitions(cells: Cells) -> Iterable[tuple[str, str, str, str]]:
    """Yield data set, start of its rows' names, partition and number of own rows."""
    for data in DATA:
        starts = dict.fromkeys(
            row.split(": ")[0] for table, of, row, _ in cells if table == "local_decoder" and of == data
        )
        for start in starts:
            if found := re.fullmatch(r"(.+) \((\d+) own rows\)", start):
                yield data, start, found[1].replace("α =", "alpha"), f"{int(found[2]):,}"


def _likeness(of: Any, row: str) -> str:
    ratio, likeness = of(row, "PSNR, dB"), of(row, "SSIM")
    if ratio is None or likeness is None:
        return "–"
    return f"{ratio['mean']:.1f} / {likeness['mean']:.2f}".replace(" 0.", " .")


def _count(value: Mapping[str, int] | None) -> str:
    return "–" if value is None else str(value["count"])


def _size(value: Any) -> str:
    number = value["value"] if isinstance(value, dict) else value
    return "–" if number is None else f"{number:.1e}" if number < 0.01 else f"{number:.3g}"


def _won(value: Any) -> str:
    words = value["words"] if isinstance(value, dict) else value
    return "" if words is None else str(words).split(":", maxsplit=1)[0]


def _table(lines: Sequence[Sequence[str]]) -> str:
    ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


def main() -> None:
    """Rewrite or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    fresh = rewritten(page, cells_of(json.loads(RESULTS.read_text(encoding="utf-8"))))
    if check:
        sys.exit(int(fresh != page))
    PAGE.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
