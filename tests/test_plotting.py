from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from exhume.plotting import BLUE, GREY, PALETTE, panels, save, style


def draw(path: Path) -> None:
    with panels(2) as (figure, axes):
        assert len(axes) == 2
        for axis, colour in zip(axes, PALETTE, strict=False):
            axis.plot(range(50), [i * 1.2345678 for i in range(50)], "o", color=colour)
        save(figure, path)


def test_equal_figures_are_equal_files(tmp_path: Path) -> None:
    for name in ("a.svg", "deep/b.svg", "c.png"):
        draw(tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "deep/b.svg").read_text()
    assert "1.2345678" not in text
    # The style of fifty equal markers is written once.
    assert text.count("<use ") > 100
    assert text.lower().count(BLUE.lower()) < 10
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_a_style_lasts_for_its_block() -> None:
    before = mpl.rcParams["font.size"]
    with style({"font.size": before + 3}):
        assert mpl.rcParams["font.size"] == before + 3
        assert mpl.rcParams["svg.fonttype"] == "none"
    assert mpl.rcParams["font.size"] == before


def test_every_colour_is_another() -> None:
    assert len({*PALETTE, GREY}) == len(PALETTE) + 1
