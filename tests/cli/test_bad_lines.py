"""Every bad command line: exit code 2, one line (two with a note), no traceback, nothing written."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from exhume.cli._edge import carry_out
from exhume.cli.main import app

HUGE = "9" * 30
FULL = "/dev/full"  # takes nothing: no space left
PROC = "/proc/exhume"  # no folder can be made there, not even by root

USAGE = """
nonsense
--nonsense
audit --nonsense
audit nonsense
audit --trials
audit --trials many
audit --trials 1.5
audit --alpha wide
audit --seed 0x
advise --trials many
advise nonsense
advise --nonsense
paper nonsense
paper run
paper run all --nonsense
paper run all --jobs many
paper run all --alpha wide
paper compare nonsense
paper list nonsense
data nonsense
data fetch
data fetch mnist cifar10
data features --dim wide
data features --batch many
data features nonsense
data info --nonsense
data list --nonsense
"""

AUDIT = f"""
audit --trials 0
audit --trials -3
audit --jobs -1
audit --clients 1
audit --clients 0
audit --clients 200
audit --alpha 0
audit --alpha -1
audit --alpha nan
audit --alpha inf
audit --alpha 1e-300 --clients 100
audit --gamma 0
audit --gamma -1
audit --gamma nan
audit --gamma inf
audit --scale 0
audit --scale -1
audit --scale inf
audit --responses 0
audit --seed -1
audit --seed {HUGE}
audit --dim 0
audit --dim -5
audit --dim 1000000
audit --dim 10000000000
audit --dim {HUGE}
audit --dim 65 --encoder none
audit --data ''
audit --data imagenet
audit --data features
audit --encoder resnet
audit --encoder ''
audit --probe designd
audit --probe ,
audit --kind sampel
audit --kind ''
audit --precision float8
audit --precision 0bits
audit --precision -3bits
audit --recovery rank-two
audit --kind client --recovery rank-one
audit --attack nobody --defence hardened
audit --defence nowhere.toml
audit --defence folder
audit --defence a-file
audit --defence broken.toml
audit --defence deep.toml
audit --defence latin.toml
audit --defence no-rule.toml
audit --defence no-option.toml
audit --defence version.toml
audit --defence hardened --precision float64
audit --fail-on everything
audit --out ''
audit --out a-file
audit --out a-file/deeper
audit --out {PROC}
audit --out pipe
audit --out {"x" * 300}
audit --home a-file
audit --home a-file/deeper
audit --home ''
audit --json folder
audit --json ''
audit --json a-file/deeper.json
audit --json {PROC}/found.json
audit --json --out a-file
audit --config nowhere.toml
audit --config folder
audit --config broken.toml
audit --config unknown.toml
audit --compare nowhere.json
audit --compare a-file
audit --compare object/results.json
audit --compare ''
audit --accept broken.toml
audit --accept unknown.toml
audit --accept nowhere.toml
audit --fail-on worse
audit --sarif folder
audit --junit a-file/found.xml
audit --markdown ''
advise --features nowhere.npz
advise --features table.csv
advise --features rows.npy
audit --config wrong.toml
audit --config zero.toml
audit --config no-out.toml
audit --config null-out.toml
audit --config table.toml
audit --config latin.toml
audit --config deep.toml
audit --config ''
audit --out store-folder --dim 16 --trials 1 --kind class --jobs 1
"""

FEATURES = """
{0} --features nowhere.npz
{0} --features folder
{0} --features ''
{0} --features empty.npz
{0} --features words.npz
{0} --features empty.npy --labels long.npy
{0} --features rows.npy
{0} --features rows.npy --labels rows.npy
{0} --features rows.npy --labels long.npy
{0} --features rows.npy --labels nowhere.npy
{0} --features rows.npy --labels empty.npy
{0} --features mine-good.npz --labels long.npy
{0} --features words.safetensors
{0} --features empty.safetensors
{0} --features table.csv
{0} --features a-file
{0} --features mine-nan.npz
{0} --features mine-flat.npz
{0} --features mine-words.npz
{0} --features mine-complex.npz
{0} --features mine-few-labels.npz
{0} --features mine-real-labels.npz
{0} --features mine-rowless.npz
{0} --features mine-objects.npz
{0} --features mine-narrow-test.npz
{0} --features mine-half-test.npz
{0} --features mine-nameless.npz
{0} --features mine-none.npz
{0} --features mine-good.npz --encoder resnet18
{0} --features mine-good.npz --encoder random-relu --dim 99999999999
"""

LIVE = """
audit --target nothing --i-operate-this-server
audit --target '' --i-operate-this-server
audit --target : --i-operate-this-server
audit --target a: --i-operate-this-server
audit --target :b --i-operate-this-server
audit --target ..a:b --i-operate-this-server
audit --target a-b:c --i-operate-this-server
audit --target no_such_module:make --i-operate-this-server
audit --target edge_targets:no_such --i-operate-this-server
audit --target edge_targets:number --i-operate-this-server
audit --target edge_targets:raises --i-operate-this-server
audit --target edge_targets:exits --i-operate-this-server
audit --target edge_targets:exits_with_words --i-operate-this-server
audit --target edge_targets:needs --i-operate-this-server
audit --target edge_targets:nothing --i-operate-this-server
audit --target edge_targets:a_number --i-operate-this-server
audit --target edge_targets:a_class --i-operate-this-server
audit --target edge_targets:head_raises --i-operate-this-server
audit --target edge_targets:head_exits --i-operate-this-server
audit --target edge_targets:head_is_nothing --i-operate-this-server
audit --target edge_targets:head_is_an_array --i-operate-this-server
audit --target edge_targets:submit_raises --i-operate-this-server
audit --target edge_targets:submit_exits --i-operate-this-server
audit --target edge_targets:submit_is_nothing --i-operate-this-server
audit --target edge_targets:deaf --i-operate-this-server
audit --target edge_targets:deaf --i-operate-this-server --probe nobody
audit --target edge_targets:deaf --i-operate-this-server --out a-file
audit --target edge_targets:deaf --i-operate-this-server --defence hardened
audit --target edge_targets:deaf
audit --undo nowhere.safetensors
audit --undo nowhere.safetensors --target edge_targets:deaf
audit --undo nowhere.safetensors --target edge_targets:deaf --i-operate-this-server
audit --undo folder --target edge_targets:deaf --i-operate-this-server
audit --undo a-file --target edge_targets:deaf --i-operate-this-server
audit --undo empty.safetensors --target edge_targets:deaf --i-operate-this-server
audit --undo '' --target edge_targets:deaf --i-operate-this-server
audit --target edge_syntax:make --i-operate-this-server
audit --target edge_exits:make --i-operate-this-server
audit --target edge_raises:make --i-operate-this-server
audit --target edge_imports:make --i-operate-this-server
"""

ADVISE = f"""
advise --trials 0
advise --jobs -1
advise --seed -1
advise --seed {HUGE}
advise --dim 0
advise --dim 1000000
advise --dim {HUGE}
advise --colluders 0
advise --averaged 0
advise --limit 0
advise --limit 3
advise --max-accuracy-loss -1
advise --max-accuracy-loss nan
advise --max-staleness -1
advise --max-staleness nan
advise --data nowhere
advise --encoder nobody
advise --attack nobody
advise --defence nothing
advise --attack ''
advise --out ''
advise --out a-file
advise --out {PROC}
advise --json folder
advise --json ''
advise --out store-folder --trials 1 --quick --attack passive --defence nothing-at-all
advise --detector --json a-file/deeper
"""

PAPER = f"""
paper run nothing
paper run ''
paper run all --data nowhere
paper run all --encoder nobody
paper run all --size records
paper run all --size records=0
paper run all --size records=many
paper run all --size name=3
paper run all --data digits --encoder random-relu --dim 0
paper run all --data digits --encoder random-relu --dim 1000000
paper run all --data digits --encoder random-relu --dim {HUGE}
paper run all --data digits --encoder none --jobs -1
paper run all --data digits --encoder none --backend threads
paper run all --data digits --encoder none --seed -1
paper run all --data digits --encoder none --seed {HUGE}
paper run all --data digits --encoder none --clients 0
paper run all --data digits --encoder none --alpha 0
paper run all --data digits --encoder none --alpha nan
paper run all --data digits --encoder none --out a-file
paper run all --data digits --encoder none --out ''
paper run all --data digits --encoder none --out {PROC}
paper run all --data digits --encoder none --page folder
paper run all --data digits --encoder none --page ''
paper run all --data digits --encoder none --json folder
paper run all --data digits --encoder none --home a-file
paper run all --data digits --encoder none --home store-folder
paper run all --data digits --encoder none --renew --out folder
paper page --out nowhere
paper page --out folder
paper page --page folder
paper run all --features nowhere.npz
paper run all --features empty.npz
paper run all --features mine-none.npz
paper compare
paper compare --out nowhere
paper compare --out a-file
paper compare --out folder
paper compare --out broken
paper compare --out list
paper compare --out object
paper compare --out fields
paper compare --out deep
paper compare --out latin
paper compare --out empty
paper compare --out folder-results
paper compare --out ''
paper list --json folder
paper list --json {FULL}
"""

DATA = f"""
data fetch nothing
data fetch ''
data fetch digits --json folder
data fetch mnist --home a-file
data fetch mnist --home {PROC}
data features --data nowhere
data features --encoder nobody
data features --dim 0
data features --dim -1
data features --dim 10000000000
data features --dim {HUGE}
data features --seed -1
data features --seed {HUGE}
data features --device tpu
data features --device ''
data features --encoder resnet18 --data digits --device tpu
data features --batch 0
data features --batch -1
data features --limit 0
data features --weights a-file
data features --encoder resnet18 --weights nowhere.pth
data features --encoder resnet18 --weights a-file
data features --sha256 00
data features --resize nearest
data features --home a-file
data features --home a-file/deeper
data features --home {PROC}
data features --json folder
data features --data digits --features mine-good.npz
data info --home a-file
data info --home ''
data info --json folder
data list --json folder
data list --json ''
data list --json {FULL}
"""

DECODE = f"""
decode nonsense
decode train
decode train nobody
decode train ''
decode train ridge --steps 5
decode train ridge --steps 0
decode train ridge --batch 0
decode train ridge --rows 0
decode train ridge --rows -1
decode train ridge --seed -1
decode train ridge --seed {HUGE}
decode train ridge --data nowhere
decode train ridge --data features
decode train ridge --encoder nobody
decode train ridge --out folder
decode train ridge --out ''
decode train ridge --out a-file/deeper
decode train ridge --out {PROC}/decoder
decode train ridge --home a-file
decode train ridge --json folder
decode train ridge --device tpu
decode train diffusion --device tpu
decode train nearest nonsense
decode show
decode show nowhere.safetensors
decode show folder
decode show a-file
decode show words.safetensors
decode show empty.safetensors
decode show ''
decode show a-file --rows 0
decode show a-file --seed -1
decode show a-file --data digits --out folder
decode show a-file --json folder
decode list --json folder
decode list nonsense
"""

OWN = FEATURES.format("audit --data features") + FEATURES.format("data features --data features")
LINES = [
    line for part in (USAGE, AUDIT, OWN, LIVE, ADVISE, PAPER, DATA, DECODE) for line in part.splitlines() if line
]  # fmt: skip


def contents(folder: Path) -> list[tuple[str, int, int]]:
    found = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in found)


@pytest.fixture
def here(ground: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ground)
    monkeypatch.setenv("EXHUME_HOME", str(ground / "home"))
    monkeypatch.delenv("EXHUME_DATA_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("exhume.jobs.run._finished", _begun)
    return ground


def _begun(*arguments: object) -> None:
    raise AssertionError("a bad line was taken for a good one: work has begun")


def test_the_table_is_long_enough() -> None:
    assert len(LINES) == len(set(LINES)) >= 150


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:70])
def test_a_bad_line(line: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    code = carry_out(app, shlex.split(line))
    said = capfd.readouterr()
    assert code == 2, said
    assert "Traceback" not in said.err
    assert ": unexpected " not in said.err  # each of these is foreseen
    lines = said.err.splitlines()
    assert 1 <= len(lines) <= 2, said.err
    assert lines[-1].startswith("exhume: ")
    assert contents(here) == before
