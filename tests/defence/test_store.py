"""A whole server in one file: it goes on where it was, whoever else uses the file, however often it is killed."""

import stat
import subprocess
import sys

import numpy as np
import pytest

from exhume import Head, Ledger, Server, Summary, Update
from exhume.defence import Bounds, Config, Entry, build, hardened_config, load_server, save_server
from exhume.defence.admission import AlgebraicOwnership, sign
from exhume.defence.memory import Memory, pack
from exhume.errors import InputError, StaleServerError
from exhume.protocol import itemise
from exhume.protocol.drift import Lost
from exhume.protocol.rules import Counts
from tests.defence.test_memory import GAMMA, KEYS, PAST, A, B, C, D, config, ledger, part, plain, rows, sent


class TestServer:
    def test_a_restarted_server_goes_on_where_it_was(self, tmp_path):
        path = tmp_path / "server.state"
        server, _ = sent(build(config(), ledger()), PAST)
        save_server(server, path)
        again = load_server(config(), path)
        assert again.counts == server.counts and again.released == server.released
        assert again.ledger.summary == server.ledger.summary and again.ledger.gamma == GAMMA
        assert repr(again.release) == repr(server.release)
        future = [
            ("alice", PAST[0][1]),
            ("bob", sign(itemise(C, add=rows(5)), "bob", 2, KEYS["bob"])),
            ("alice", sign(itemise(C, delete=part(B, 0)), "alice", 3, KEYS["alice"])),
            ("alice", sign(itemise(C, delete=part(A, 1)), "alice", 4, KEYS["alice"])),
        ]
        steady, restarted = ([s.submit(u, who) for who, u in future] for s in (server, again))
        assert [r.reason for r in restarted] == [r.reason for r in steady]
        assert [r.accepted for r in restarted] == [False, True, False, True]
        assert [r.number for r in restarted] == [r.number for r in steady]
        for one, two in zip(steady, restarted, strict=True):
            assert (one.head is None) == (two.head is None)
            if one.head is not None:
                assert one.head.serial == two.head.serial
                np.testing.assert_allclose(two.head.weights, one.head.weights, rtol=1e-12)

    def test_a_server_that_released_nothing_releases_nothing_by_being_saved(self, tmp_path):
        bounded = hardened_config(D, bounds=Bounds(9.0, 50, 100))
        server = build(bounded, ledger()).server(ledger())
        save_server(server, tmp_path / "s")
        again = load_server(bounded, tmp_path / "s")
        assert again.counts == Counts() and again.released is None and server.released is None

    def test_what_rounding_may_have_taken_comes_back(self, tmp_path):
        server = Server(Ledger.zeros(D, C, GAMMA))
        server.submit(Update.adding(Summary.of(1e6 * np.eye(D), [0] * D, C)), "a")
        save_server(server, tmp_path / "s")
        assert load_server(Config(), tmp_path / "s").ledger.lost == server.ledger.lost != Lost()

    def test_a_grid_comes_back(self, tmp_path):
        server = Server(Ledger.zeros(D, C, GAMMA, grid=2.0**-10))
        server.head()
        save_server(server, tmp_path / "s")
        assert load_server(Config(), tmp_path / "s").grid == 2.0**-10

    @pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
    def test_the_file_is_for_its_owner_only_and_replaced_whole(self, tmp_path, monkeypatch):
        path = tmp_path / "s"
        server, _ = sent(build(config(), ledger()), PAST)
        save_server(server, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        old = path.read_bytes()
        monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            save_server(Server(ledger()), path, replace=True)
        assert path.read_bytes() == old and list(tmp_path.iterdir()) == [path]

    def test_bad_files_and_places_say_so(self, tmp_path):
        path = tmp_path / "s"
        with pytest.raises(InputError, match="can be read"):
            load_server(config(), path)
        with pytest.raises(InputError, match="can be written"):
            save_server(Server(ledger()), tmp_path / "nowhere" / "s")
        save_server(Server(ledger()), path)
        with pytest.raises(InputError, match="state of defences: accountant"):
            load_server(config(), path)
        for data, match in (
            (b"", "state must be"),
            (path.read_bytes()[:-1], "state must be"),
            (pack("server", {}, Memory()), "this version can read"),
            (AlgebraicOwnership(0.1).save(), "that of 'server'"),
        ):
            path.write_bytes(data)
            with pytest.raises(InputError, match=match):
                load_server(Config(), path)

    def test_nobody_can_make_totals_that_the_server_cannot_read_again(self, tmp_path):
        """A summary may be asymmetric by its own roundoff; of a large one, that is much beside what stays."""
        big = 1e8 * np.eye(D)
        skew = big.copy()
        skew[1, 0] += 0.9 * 2.0**-28 * 1e8
        server = build(Config(admission=(Entry.of("algebraic-ownership", least_norm=0.1),)), ledger()).server(ledger())
        zero = np.zeros((D, C))
        assert server.submit(Update.adding(Summary(skew, zero)), "mallory").accepted
        assert server.submit(Update.deleting(Summary(big, zero)), "mallory").accepted
        with pytest.raises(InputError, match="asymmetry"):
            Summary(server.ledger.summary.gram, zero)
        save_server(server, tmp_path / "s")
        again = load_server(Config(admission=(Entry.of("algebraic-ownership", least_norm=0.1),)), tmp_path / "s")
        assert again.ledger.summary == server.ledger.summary

    def test_a_head_of_another_size_is_not_taken_over(self):
        with pytest.raises(InputError, match="as the ledger"):
            Server(ledger()).resume(Counts(), Head(np.zeros((2, 2))))


WORKER = """
import sys, time
import numpy as np
from exhume import Summary, Update
from exhume.defence import Config, load_server, save_server
from exhume.errors import StaleServerError

path, name, updates = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(len(name))
done = lost = 0
server = load_server(Config(), path)
print("ready", flush=True)
sys.stdin.readline()
while done < updates:
    server.submit(Update.adding(Summary.of(rng.normal(size=(1, 6)), [0], 3)), name)
    time.sleep(0.001 * rng.random())
    try:
        save_server(server, path)
        done += 1
    except StaleServerError:
        lost += 1
    server = load_server(Config(), path)
print(lost)
"""


class TestTwoProcesses:
    def test_the_second_to_save_is_refused_and_nothing_is_lost(self, tmp_path):
        path = tmp_path / "s"
        save_server(Server(ledger()), path)
        one, two = load_server(Config(), path), load_server(Config(), path)
        one.submit(plain(add=A), "alice")
        two.submit(plain(add=B), "bob")
        save_server(one, path)
        kept = path.read_bytes()
        with pytest.raises(StaleServerError, match="nothing was saved"):
            save_server(two, path)
        assert path.read_bytes() == kept
        one.submit(plain(add=B), "alice")
        save_server(one, path)  # it knows what it wrote last
        assert load_server(Config(), path).counts.submissions == 2
        save_server(two, path, replace=True)
        with pytest.raises(StaleServerError):
            save_server(one, path)

    def test_a_new_server_takes_nobodys_file_by_accident(self, tmp_path):
        path = tmp_path / "s"
        save_server(Server(ledger()), path)
        with pytest.raises(StaleServerError):
            save_server(Server(ledger()), path)
        save_server(Server(ledger()), path, replace=True)
        path.unlink()
        save_server(Server(ledger()), path)

    @pytest.mark.skipif(sys.platform == "win32", reason="folder locks are POSIX")
    def test_accepted_updates_of_two_processes_are_all_in_the_file(self, tmp_path):
        path = tmp_path / "s"
        save_server(Server(Ledger.zeros(D, C, GAMMA)), path)
        command = [sys.executable, "-c", WORKER, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        both = [subprocess.Popen([*command, name, "20"], **pipes) for name in ("alice", "bobby")]
        for process in both:  # both have read the same file before either writes
            assert process.stdout.readline() == "ready\n"
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
        lost = [int(process.communicate(timeout=120)[0]) for process in both]
        assert [process.returncode for process in both] == [0, 0]
        assert load_server(Config(), path).counts.submissions == 40
        assert sum(lost) > 0  # they did meet
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(sys.platform == "win32", reason="kills are POSIX")
    def test_what_a_killed_save_left_is_removed_by_the_next(self, tmp_path):
        path = tmp_path / "s"
        save_server(Server(ledger()), path)
        killed = """
import os, signal, sys
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
from exhume.defence import Config, load_server, save_server
save_server(load_server(Config(), sys.argv[1]), sys.argv[1])
"""
        for _ in range(2):
            assert subprocess.run([sys.executable, "-c", killed, str(path)], check=False).returncode == -9
        left = [p for p in tmp_path.iterdir() if p != path]
        assert left and all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in left)
        save_server(load_server(Config(), path), path)
        assert list(tmp_path.iterdir()) == [path]
