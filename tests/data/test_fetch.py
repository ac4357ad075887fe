import gzip
import hashlib
import io
import os
import socket
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from exhume.data.catalogue import Holding, Item
from exhume.data.fetch import bring, ensure, fetch, holdings, missing_items
from exhume.data.mirrors import Folder, WebArchive, WebFiles
from exhume.errors import DataError, InputError

CONTENT = {"one.bin": b"first file " * 5000, "two.bin": b"second file " * 7000}


def item(name):
    return Item(name, hashlib.sha256(CONTENT[name]).hexdigest(), len(CONTENT[name]), "this test")


ITEMS = tuple(item(name) for name in CONTENT)


def holding(*sources, **changes):
    return Holding(**{"name": "thing", "kind": "data", "items": ITEMS, "sources": sources, **changes})


def archive():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in CONTENT.items():
            info = tarfile.TarInfo(f"some/folder/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    """A web server with good files, corrupted ones, and ones that break off."""

    def do_GET(self):
        _, folder, name = self.path.split("/")
        content = archive() if name == "all.tar.gz" else CONTENT.get(name.removesuffix(".gz"))
        if content is None or folder == "missing":
            self.send_error(404)
            return
        if folder == "packed":
            content = gzip.compress(content)
        if folder in ("endless", "boasting"):
            content += bytes(1 << 18)
        if folder == "corrupted":
            content = content[:-1] + b"?"
        self.send_response(200)
        if folder not in ("unannounced", "endless"):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if folder in ("truncated", "unannounced"):
            content = content[: len(content) // 2]
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


def quiet(*_):
    pass


def assert_whole(home, kind="data"):
    folder = home / kind / "thing"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == CONTENT
    assert not list(home.glob(".fetch-*"))


@pytest.mark.parametrize(("folder", "suffix"), [("good", ""), ("packed", ".gz")])
def test_files_from_the_web(server, home, folder, suffix):
    seen = []
    source = WebFiles(f"{server}/{folder}/", suffix=suffix)
    got = bring(holding(source), home, lambda *report: seen.append(report))
    assert_whole(home)
    assert got.sources == dict.fromkeys(CONTENT, source.label)
    assert got.failures == ()
    assert seen[-1][1] == seen[-1][2] > 0


def test_archive_from_the_web(server, home):
    bring(holding(WebArchive(f"{server}/good/all.tar.gz")), home, quiet)
    assert_whole(home)


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("corrupted", "has SHA-256"),
        ("truncated", "broke off after"),
        ("unannounced", "has SHA-256"),
        ("missing", "HTTP Error 404"),
        ("boasting", "it announces 317144 bytes, where at most 121086 are wanted"),
        ("endless", "it sends more than the 121086 bytes that are wanted"),
    ],
)
def test_bad_source_then_good_mirror(server, home, folder, reason):
    good = WebFiles(f"{server}/good")
    got = bring(holding(WebFiles(f"{server}/{folder}"), good), home, quiet)
    assert_whole(home)
    assert set(got.sources.values()) == {good.label}
    assert reason in got.failures[0]
    assert got.failures[0].startswith(f"{server}/{folder}: ")


@pytest.mark.parametrize(("folder", "reason"), [("good", "announces"), ("endless", "sends more than")])
def test_an_archive_beyond_its_size_is_not_brought(server, home, folder, reason):
    most = len(archive()) - 1
    bad = WebArchive(f"{server}/{folder}/all.tar.gz", most=most)
    got = bring(holding(bad, WebFiles(f"{server}/good")), home, quiet)
    assert_whole(home)
    assert reason in got.failures[0] and str(most) in got.failures[0]
    bring(holding(WebArchive(bad.url.replace(folder, "good"), most=most + 1), name="other"), home, quiet)


def test_truncated_archive(server, home):
    bad = WebArchive(f"{server}/unannounced/all.tar.gz")
    got = bring(holding(bad, WebFiles(f"{server}/good")), home, quiet)
    assert_whole(home)
    assert bad.label in got.failures[0]


def test_every_failure_is_listed_and_nothing_is_left(server, home):
    sources = [WebFiles(f"{server}/{folder}") for folder in ("corrupted", "truncated", "missing")]
    with pytest.raises(DataError) as caught:
        bring(holding(*sources), home, quiet)
    message = str(caught.value)
    assert message.startswith("thing: could not get one.bin, two.bin. Tried:")
    assert all(f"\n  - {source.label}: " in message for source in sources)
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_unreachable_server_fails_fast(server, home):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    got = bring(holding(WebFiles(closed), WebFiles(f"{server}/good")), home, quiet)
    assert time.monotonic() - began < 5
    assert "refused" in got.failures[0]


def test_silent_server_times_out(server, home, monkeypatch):
    monkeypatch.setattr("exhume.data.mirrors.TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        got = bring(holding(WebFiles(address), WebFiles(f"{server}/good")), home, quiet)
    assert "timed out" in got.failures[0]
    assert_whole(home)


def test_only_what_is_missing_is_fetched(server, home):
    good = WebFiles(f"{server}/good")
    bring(holding(good), home, quiet)
    (home / "data/thing/two.bin").write_bytes(b"damaged")
    assert [lack.name for lack in missing_items(holding(), home)] == ["two.bin"]
    got = bring(holding(good), home, quiet)
    assert got.sources == {"one.bin": "home", "two.bin": good.label}
    assert_whole(home)


def test_data_path_comes_last(home, tmp_path, monkeypatch):
    near, far = tmp_path / "near", tmp_path / "far"
    (far / "sub").mkdir(parents=True)
    (far / "other name").write_bytes(CONTENT["one.bin"])
    (far / "sub" / "two.bin.gz").write_bytes(gzip.compress(CONTENT["two.bin"]))
    (far / "two.bin").write_bytes(b"not it")
    monkeypatch.setenv("EXHUME_DATA_PATH", os.pathsep.join([str(near), str(far)]))
    got = bring(holding(), home, quiet)
    assert_whole(home)
    assert set(got.sources.values()) == {f"{far} (EXHUME_DATA_PATH)"}
    assert "is not a folder" in got.failures[0]


def test_archive_in_a_folder(home, tmp_path, monkeypatch):
    (tmp_path / "all.tar.gz").write_bytes(archive())
    monkeypatch.setenv("EXHUME_DATA_PATH", str(tmp_path))
    bring(holding(archives=("all.tar.gz",)), home, quiet)
    assert_whole(home)


def test_packed_bomb_is_cut_short(home, tmp_path):
    (tmp_path / "one.bin.gz").write_bytes(gzip.compress(bytes(50_000_000)))
    with pytest.raises(DataError, match="has SHA-256"):
        bring(holding(Folder(tmp_path, "the folder")), home, quiet)


def test_one_form_is_enough(server, home):
    either = holding(WebFiles(f"{server}/good", only=("two.bin",)), any_one=True)
    got = bring(either, home, quiet)
    assert list(got.sources) == ["two.bin"]
    assert missing_items(either, home) == ()


def test_ensure_does_not_fetch_against_its_orders(server, home):
    thing = holding(WebFiles(f"{server}/good"))
    with pytest.raises(DataError, match=r"lacks one\.bin, two\.bin; run: exhume data fetch thing"):
        ensure(thing, home, download=False)
    assert ensure(thing, home) == home / "data" / "thing"
    assert ensure(thing, home, download=False) == home / "data" / "thing"


def test_fetch_by_name():
    assert fetch("digits").sources == {}
    with pytest.raises(InputError, match=r"cifar10, digits, .* got 'mnits' \(did you mean 'mnist'\?\)"):
        fetch("mnits")


def test_only_web_addresses_are_opened(home, tmp_path):
    (tmp_path / "one.bin").write_bytes(CONTENT["one.bin"])
    with pytest.raises(DataError, match="not an http or https address"):
        bring(holding(WebFiles(Path(tmp_path).as_uri())), home, quiet)


def test_known_hashes_are_well_formed():
    assert {"mnist", "fashion-mnist", "cifar10", "resnet18", "mobilenetv2"} <= set(holdings())
    for entry in holdings().values():
        assert entry.sources or entry.name == "tinyimagenet"  # no site offers that very file
        for known in entry.items:
            assert len(bytes.fromhex(known.sha256)) == 32
            assert known.size > 0
            assert known.hash_from
