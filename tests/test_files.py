"""Files are whole or absent, leave nothing behind, and are for whom they are meant."""

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from exhume.files import PRIVATE, atomic_file, held, remove_stale, write_files

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and folder locks are POSIX")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file"
    with atomic_file(path) as stream:
        stream.write(b"one")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as stream:
        stream.write(b"two")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"one" and list(path.parent.iterdir()) == [path]


@posix
def test_the_mode_is_that_of_the_new_file_from_its_first_byte_on(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"open to all")
    path.chmod(0o644)
    with atomic_file(path, PRIVATE) as stream:
        assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600
        stream.write(b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_what_killed_writers_of_this_file_left_is_removed(tmp_path):
    ours = [".server.0123abcd.part", ".server.ffffffff.part"]
    others = ["server", ".server.settings", ".server.0123abcd", ".server2.0123abcd.part", ".server.x.0123abcd.part"]
    for name in ours + others:
        (tmp_path / name).write_bytes(b"x")
    remove_stale(tmp_path / "server")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(others)


@posix
def test_a_folder_is_held_by_one_at_a_time_and_synced(tmp_path, monkeypatch):
    synced, order = [], []
    real = os.fsync
    monkeypatch.setattr("os.fsync", lambda fd: (synced.append(stat.S_ISDIR(os.fstat(fd).st_mode)), real(fd)))
    inside = threading.Event()

    def second():
        inside.wait()
        with held(tmp_path):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with held(tmp_path):
        inside.set()
        other.join(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"] and synced == [True, True]


def test_files_that_belong_together_are_all_written_or_none_is(tmp_path, monkeypatch):
    one, two = tmp_path / "deep" / "one", tmp_path / "two"
    write_files({one: "first", two: b"old"})
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_files({one: "second", two: "new"})
    assert (one.read_text(), two.read_text()) == ("first", "old")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "one", "two"]
    write_files({one: "second", two: "new"})
    assert (one.read_text(), two.read_text()) == ("second", "new")


def test_links_and_devices_stay_what_they_are(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_files({link: "new"})
    assert link.is_symlink() and real.read_text() == "new"
    write_files({Path(os.devnull): "gone"})
    assert Path(os.devnull).is_char_device()
