import io
from types import SimpleNamespace

from rich.console import Console

from exhume.decode._base import TrainingStep
from exhume.decode.progress import training_bar


def shown(*steps):
    """What the bar draws on a terminal of 80 columns."""
    told = io.StringIO()
    with training_bar(Console(file=told, force_terminal=True, width=80, color_system=None)) as tick:
        for step in steps:
            tick(step)
    return told.getvalue()


def test_a_training_without_steps_is_shown_too():
    assert "training: preparing" in shown()


def test_the_bar_tells_all_in_80_columns(monkeypatch):
    clock = iter(range(0, 100, 2))
    monkeypatch.setattr("exhume.decode.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    text = shown(TrainingStep(1001, 1000, 2600, 128, 0.7), TrainingStep(1003, 1000, 2600, 128, 0.6, 0.59))
    assert "step 1003/2600, 128 images/s, loss 0.600, held out 0.590, 0:26:37 left" in text


def test_nothing_is_drawn_where_nobody_looks():
    told = io.StringIO()
    with training_bar(Console(file=told)) as tick:
        tick(TrainingStep(1, 0, 2, 8, 0.5))
    assert not told.getvalue().strip()


def test_the_first_step_has_no_rate_yet():
    assert "left" not in shown(TrainingStep(3, 2, 5, 8, 0.5))
