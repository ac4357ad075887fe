import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from exhume.data import sets
from exhume.data.cache import ARRAYS, cache_folder, publish, read_cache
from exhume.data.encoders import Options, build
from exhume.data.extract import extract
from exhume.errors import DataError, InputError

DIGITS = sets.by_name("digits")
BATCH = 100
ROWS = DIGITS.train_rows + DIGITS.test_rows


@dataclass
class Counting:
    """A random-relu encoder that counts its rows, and may break after some of them."""

    allowed: int = ROWS
    rows: int = 0
    name: str = "random-relu"
    device: str = "cpu"
    inner: object = field(default_factory=lambda: build("random-relu", Options(width=64, dim=32)))
    dim: int = 32

    @property
    def fingerprint(self):
        return self.inner.fingerprint

    def encode(self, images):
        if self.rows + len(images) > self.allowed:
            raise KeyboardInterrupt
        self.rows += len(images)
        return self.inner.encode(images)


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture
def whole(tmp_path):
    """An uninterrupted extraction."""
    return extract(DIGITS, Counting(), tmp_path / "whole", batch=BATCH)


def partial_folder(home):
    [folder] = (home / "features").iterdir()
    assert folder.suffix == ".partial"
    return folder


def interrupted(home, rows):
    with pytest.raises(KeyboardInterrupt):
        extract(DIGITS, Counting(allowed=rows), home, batch=BATCH)
    return partial_folder(home)


def resume(home, whole):
    """Finish an extraction, hold it against the uninterrupted one, and return the rows it still had to encode."""
    model = Counting()
    ready = extract(DIGITS, model, home, batch=BATCH)
    assert content(ready.folder) == content(whole.folder)
    assert model.rows + ready.resumed == ROWS
    assert [folder.name for folder in (home / "features").iterdir()] == [whole.folder.name]
    return model.rows


def test_extraction_is_the_encoding(whole):
    images = sets.load("digits")
    model = build("random-relu", Options(width=64, dim=32))
    np.testing.assert_allclose(whole.arrays[0], model.encode(images.train_images), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(whole.arrays[2], model.encode(images.test_images), rtol=1e-5, atol=1e-5)
    assert whole.arrays[0].dtype == np.float32
    assert np.array_equal(whole.arrays[1], images.train_labels)
    assert np.array_equal(whole.arrays[3], images.test_labels)
    assert whole.fresh
    assert set(content(whole.folder)) == {"manifest.json", *(f"{name}.npy" for name in ARRAYS)}


def test_second_extraction_is_read_from_the_cache(home):
    extract(DIGITS, Counting(), home, batch=BATCH)
    again = extract(DIGITS, Counting(allowed=0), home, batch=BATCH)
    assert not again.fresh


@pytest.mark.parametrize("rows", [0, 700, 1400, 1438, 1738])
def test_interrupted_run_goes_on(home, whole, rows):
    interrupted(home, rows)
    # 1,438 rows are fourteen full batches and a short one.
    finished = rows if rows in (1438, 1738) else rows // BATCH * BATCH
    assert resume(home, whole) == ROWS - finished


def test_ticks_count_the_rows(home):
    interrupted(home, 700)
    ticks = []
    extract(DIGITS, Counting(), home, batch=BATCH, tick=lambda *tick: ticks.append(tick))
    assert ticks[0] == (100, 100, ROWS)
    assert ticks[-1] == (ROWS, 700, ROWS)


KILLED = """
import sys, time
from exhume.data import sets
from exhume.data.encoders import Options, build
from exhume.data.extract import extract
from pathlib import Path

def tick(done, resumed, total):
    print(done, flush=True)
    time.sleep(0.05)

model = build("random-relu", Options(width=64, dim=32))
extract(sets.by_name("digits"), model, Path(sys.argv[1]), batch=100, tick=tick)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this platform has no SIGKILL")
def test_killed_run_goes_on_bitwise(home, whole):
    """Kill a run twice, each time after a few batches; the outcome is that of an uninterrupted run."""
    for kill in range(2):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(home)], stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:
                if int(line) >= 300 * (kill + 1):
                    os.kill(run.pid, signal.SIGKILL)
                    break
        assert run.returncode == -signal.SIGKILL
        partial_folder(home)
    assert 0 < resume(home, whole) <= ROWS - 600


TOGETHER = """
import sys, time
from pathlib import Path
from exhume.data import sets
from exhume.data.encoders import Options, build
from exhume.data.extract import extract

home, go = Path(sys.argv[1]), Path(sys.argv[2])
model = build("random-relu", Options(width=64, dim=32))
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
ready = extract(sets.by_name("digits"), model, home, batch=100, tick=lambda *_: time.sleep(0.01))
print("fresh" if ready.fresh else "found", ready.arrays[0].shape[0], flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this platform has no folder locks")
def test_extractions_of_one_thing_in_one_home_at_once_all_end_well(home, whole, tmp_path):
    """One computes it; the others wait and find it. The first is killed in one round: the next takes over."""
    for round_, kill in enumerate((False, False, True)):
        place, go = home / str(round_), tmp_path / f"go{round_}"
        runs = [
            subprocess.Popen(
                [sys.executable, "-c", TOGETHER, str(place), str(go)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        assert [run.stdout.readline() for run in runs] == ["ready\n"] * 4
        go.touch()
        if kill:
            time.sleep(0.1)
            runs[0].kill()
        answers = [run.communicate(timeout=120) for run in runs]
        survivors = answers[kill:]
        assert [err for _, err in survivors] == [""] * len(survivors)
        assert sorted(out.split()[0] for out, _ in survivors) in (
            ["found"] * (len(survivors) - 1) + ["fresh"],
            *([["found"] * 3] if kill else []),  # the killed one may have been quick enough
        )
        [folder] = (place / "features").iterdir()
        assert content(folder) == content(whole.folder)


FULL = """
import resource, sys
from pathlib import Path
from exhume.data import sets
from exhume.data.encoders import Options, build
from exhume.data.extract import extract
from exhume.errors import DataError

if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    extract(sets.by_name("digits"), build("random-relu", Options(width=64, dim=32)), Path(sys.argv[1]), batch=100)
except DataError as error:
    print(error)
    sys.exit(2)
"""


def run_full(home, how, prefix=()):
    command = [*prefix, sys.executable, "-c", FULL, str(home), how]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="this platform has no resource limits")
def test_a_file_that_may_not_grow_is_an_error_that_says_where(home, whole):
    done = run_full(home, "limit")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith(str(home)) and "cannot be written: File too large" in done.stdout
    assert resume(home, whole) == ROWS  # once there is room, it goes on


@pytest.mark.skipif(shutil.which("unshare") is None, reason="this platform cannot mount a small disk for a test")
def test_a_full_disk_is_an_error_and_not_a_signal(home, whole):
    home.mkdir()
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    small = f'mount -t tmpfs -o size=100k small "{home}" && exec "$@"'
    probe = subprocess.run([*mount, small, "sh", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {probe.stderr.decode().strip()}")
    done = run_full(home, "disk", (*mount, small, "sh"))
    assert (done.returncode, done.stderr) == (2, "")
    assert "cannot be written: No space left on device" in done.stdout


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_room_is_reserved_before_anything_is_encoded(home, monkeypatch, code):
    def full(descriptor, start, size):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    model = Counting()
    with pytest.raises(DataError, match=f"cannot be written: {os.strerror(code)}"):
        extract(DIGITS, model, home, batch=BATCH)
    assert model.rows == 0


@pytest.mark.parametrize("how", ["absent", "unsupported"])
def test_where_nothing_can_be_reserved_the_file_is_filled_up(home, whole, monkeypatch, how):
    def unsupported(descriptor, start, size):
        raise OSError(errno.EOPNOTSUPP, "not here")

    if how == "absent":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", unsupported, raising=False)
    folder = interrupted(home, 700)
    assert (folder / "test_features.npy").stat().st_blocks * 512 >= DIGITS.test_rows * 32 * 4
    assert resume(home, whole) == ROWS - 700


def test_torn_journal_line_spoils_only_itself(home, whole):
    journal = interrupted(home, 700) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert resume(home, whole) == ROWS - 600


def test_damaged_batch_is_encoded_again(home, whole):
    store = interrupted(home, 700) / "train_features.npy"
    damaged = bytearray(store.read_bytes())
    damaged[2000] ^= 1
    store.write_bytes(damaged)
    assert resume(home, whole) == ROWS - 600


@pytest.mark.parametrize("left", [0, 50, 1000])
def test_features_cut_short_are_started_anew(home, whole, left):
    store = interrupted(home, 700) / "train_features.npy"
    store.write_bytes(store.read_bytes()[:left])
    assert resume(home, whole) == ROWS


def test_another_batch_size_starts_anew(home):
    interrupted(home, 700)
    ready = extract(DIGITS, Counting(), home, batch=64)
    assert ready.resumed == 0


def test_half_written_cache_is_never_read(home):
    interrupted(home, 700)
    assert read_cache(cache_folder(home, DIGITS, Counting())) is None


@pytest.mark.parametrize("name", [f"{name}.npy" for name in ARRAYS])
@pytest.mark.parametrize("harm", ["cut", "gone", "changed"])
def test_damaged_cache_is_refused(whole, name, harm):
    path = whole.folder / name
    if harm == "gone":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] if harm == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DataError, match="missing or damaged; remove"):
        read_cache(whole.folder)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 99, "files": {}}', '{"format": 1, "files": 3}'])
def test_damaged_manifest_is_refused(whole, text):
    (whole.folder / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="damaged"):
        read_cache(whole.folder)


def test_manifest_says_what_it_is(whole):
    manifest = json.loads((whole.folder / "manifest.json").read_text())
    assert manifest["data_sha256"] == DIGITS.sha256
    assert manifest["encoder_fingerprint"] == Counting().fingerprint
    assert (manifest["dim"], manifest["batch"], manifest["device"], manifest["limit"]) == (32, BATCH, "cpu", None)


def test_second_to_finish_keeps_the_first(whole, tmp_path):
    work = tmp_path / "other.partial"
    shutil.copytree(whole.folder, work)
    before = content(whole.folder)
    publish(work, whole.folder, {"key": "other"})
    assert content(whole.folder) == before
    assert not work.exists()


def test_limit_has_its_own_entry(home, whole):
    ready = extract(DIGITS, Counting(), home, limit=150, batch=BATCH)
    assert ready.folder.name != whole.folder.name
    assert np.array_equal(ready.arrays[0][:100], whole.arrays[0][:100])
    assert [len(array) for array in ready.arrays] == [150] * 4


def test_encoder_that_misbehaves(home):
    model = Counting()
    model.inner = build("random-relu", Options(width=64, dim=31))
    with pytest.raises(DataError, match="not finite and 32 wide"):
        extract(DIGITS, model, home)


def test_batch_must_be_positive(home):
    with pytest.raises(InputError, match="batch must be at least 1"):
        extract(DIGITS, Counting(), home, batch=0)
