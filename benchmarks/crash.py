"""What `kill -9` can do to the durable server: nothing acknowledged is lost, nothing counts twice.

    python benchmarks/crash.py --kills 1000 --json

Four clients send additions, deletions of their own blocks and retries. The process that writes the store is killed at
random moments, snapshots and restarts included; another takes over, and messages without an answer are sent again under
their keys. On a grid the ledger must then be, bit for bit, the sum of what counts.

Most kills hit a light process, store and writer without HTTP, forked from this one; `--http-kills` hit the whole
service (`exhume serve --config`), which takes longer to start.
"""

import argparse
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from exhume.defence import Config, Entry
from exhume.protocol import Summary, Update
from exhume.protocol.wire import decode_update, encode_update
from exhume.store import Forgetting, OperatorKey, Sent, ServerSetup, StoredReceipt
from exhume.store import open as open_store

CLIENTS = ("ada", "bo", "cy", "dee")
D, C, GRID = 8, 3, 2.0**-10
KEY = OperatorKey(bytes(range(32)))
DEFENCE = Config(
    admission=(
        Entry.of("bounded-influence", longest=30.0, message_rows=20, client_rows=10**6),
        Entry.of("whole-messages"),
    ),
    release=(Entry.of("continual-noise", sigma=0.2, horizon=100, grows=True), Entry.of("heads", precision="float32")),
)
SETUP = ServerSetup(D, C, 1e-3, GRID, DEFENCE)


@dataclass
class Player:
    """One client: what it sent, what was acknowledged, what stands."""

    name: str
    rng: np.random.Generator
    count: int = 0
    flying: tuple[str, bytes] | None = None
    """Key and body of the message that has no answer yet."""
    answers: dict = field(default_factory=dict)
    bodies: dict = field(default_factory=dict)
    standing: list = field(default_factory=list)
    tries: int = 0

    def next(self):
        """Return the next message to send: one without an answer again, sometimes an answered one, mostly a new one."""
        if self.flying is not None:
            return self.flying
        if self.answers and self.rng.random() < 0.1:
            key = list(self.answers)[int(self.rng.integers(len(self.answers)))]
            return key, self.bodies[key]
        self.count += 1
        key = f"m{self.count}"
        if self.standing and self.rng.random() < 0.4:
            update = Update.deleting(self.standing[int(self.rng.integers(len(self.standing)))])
        else:
            rows = np.rint(self.rng.standard_normal((int(self.rng.integers(1, 4)), D)) / GRID) * GRID
            update = Update.adding(Summary.of(rows, self.rng.integers(0, C, len(rows)), C))
        self.flying = (key, encode_update(update))
        self.bodies[key] = self.flying[1]
        return self.flying

    def answered(self, key, answer, wrong):
        """Take an answer; one that differs from what the same key got before is wrong."""
        if key in self.answers:
            wrong["other_receipt"] += self.answers[key] != answer
            return
        self.answers[key] = answer
        if self.flying is not None and self.flying[0] == key:
            self.flying = None
        if answer[0]:
            update = decode_update(self.bodies[key])
            if not update.add.is_zero:
                self.standing.append(update.add)
            if not update.delete.is_zero:
                at = next(i for i, block in enumerate(self.standing) if block == update.delete)
                self.standing.pop(at)


def total_of(players):
    """Return the sum of every acknowledged and accepted message, and how many they are."""
    total, count = Summary.zeros(D, C), 0
    for player in players:
        for key, (accepted, *_) in player.answers.items():
            if accepted:
                update = decode_update(player.bodies[key])
                total, count = total + update.add - update.delete, count + 1
    return total, count


def opened(path):
    return open_store(path, SETUP, KEY, watch=False, forgetting=Forgetting(updates=7, seconds=0.2))


def check(path, players, wrong):
    """Open the store as nobody's: receipts and ledger against what the clients know."""
    with opened(path) as store:
        for player in players:
            if player.flying is not None:  # it may have got there: then it is acknowledged now
                found = store.receipt(player.name, player.flying[0])
                if found is not None:
                    player.answered(player.flying[0], answer_of(found), wrong)
            for key, answer in player.answers.items():
                found = store.receipt(player.name, key)
                wrong["lost"] += found is None
                wrong["other_receipt"] += found is not None and answer_of(found) != answer
        total, count = total_of(players)
        kept = store.server.ledger.summary
        wrong["doubled"] += max(store.published.counts.messages - count, 0)
        wrong["lost"] += max(count - store.published.counts.messages, 0)
        wrong["ledger_differs"] += not (
            np.array_equal(np.array(kept.gram), np.array(total.gram))
            and np.array_equal(np.array(kept.moment), np.array(total.moment))
        )
        with store.engine.connect() as connection:
            sent = {(player.name, key) for player in players for key in player.bodies}
            known = {tuple(row) for row in connection.exec_driver_sql("SELECT client, key FROM receipts")}
        wrong["never_sent"] += len(known - sent)


def answer_of(receipt):
    return [receipt.accepted, receipt.number, receipt.serial]


def send(link, content, body=b""):
    head = json.dumps(content).encode()
    link.sendall(struct.pack("<II", len(head), len(body)) + head + body)


class Frames:
    """Reads frames from a socket, whole or not at all."""

    def __init__(self, link):
        self.link, self.data = link, b""

    def ready(self, wait):
        """Return the frames that have come; None where the other side is gone."""
        if not select.select([self.link], [], [], wait)[0]:
            return []
        try:
            piece = self.link.recv(1 << 16)
        except ConnectionResetError:
            return None
        if not piece:
            return None
        self.data += piece
        found = []
        while len(self.data) >= 8:
            head, body = struct.unpack_from("<II", self.data)
            if len(self.data) < 8 + head + body:
                break
            found.append((json.loads(self.data[8 : 8 + head]), self.data[8 + head : 8 + head + body]))
            self.data = self.data[8 + head + body :]
        return found


def target(link, path):
    """Be the process that is killed: open the store, commit what comes, answer."""
    store = opened(path)
    frames = Frames(link)
    send(link, {"up": True})
    while (found := frames.ready(1.0)) is not None:
        if not found:
            continue
        # Each message is a round of its own; all are one transaction.
        rounds = [[Sent(head["client"], head["key"], body, decode_update(body))] for head, body in found]
        for (head, _), (answer,) in zip(found, store.commit(rounds), strict=True):
            if isinstance(answer, StoredReceipt):
                send(link, {**head, "answer": answer_of(answer)})


def light(path, players, rng, wrong, kills):
    """Kill the light process so many times."""
    done = 0
    while done < kills:
        here, there = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            here.close()
            try:
                target(there, path)
            finally:
                os._exit(0)
        there.close()
        frames, up, end = Frames(here), False, time.monotonic() + 60.0
        if rng.random() < 0.125:  # one kill in eight comes while the process starts
            end = time.monotonic() + float(rng.uniform(0, 0.1))
        busy, left, last = set(), int(rng.geometric(1 / 8)), time.monotonic()
        try:
            while time.monotonic() < end:
                found = frames.ready(0.002)
                if found is None:
                    raise SystemExit("the target ended by itself")
                for head, _ in found:
                    if "up" in head:
                        up, last = True, time.monotonic()
                        continue
                    player = next(player for player in players if player.name == head["client"])
                    player.answered(head["key"], head["answer"], wrong)
                    busy.discard(player.name)
                    left -= 1
                    if left == 0:  # then at any moment of the next transaction or so
                        end = time.monotonic() + float(rng.uniform(0, 1.5)) * (time.monotonic() - last)
                    last = time.monotonic()
                for player in players if up else ():
                    if player.name not in busy:
                        key, body = player.next()
                        send(here, {"client": player.name, "key": key}, body)
                        busy.add(player.name)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        while found := frames.ready(0.0):  # answers that were on their way: they were given
            for head, _ in found:
                if "answer" in head:
                    player = next(player for player in players if player.name == head["client"])
                    player.answered(head["key"], head["answer"], wrong)
        here.close()
        done += 1
        if done % 50 == 0:
            check(path, players, wrong)
    return done


def whole(folder, players, rng, wrong, kills):
    """Kill the whole service so many times; its clients talk HTTP."""
    import subprocess

    import httpx

    from exhume.defence import dump
    from exhume.service import Tokens

    dump(DEFENCE, folder / "defence.toml")
    KEY.save(folder / "service.key")
    config = f'[ledger]\nd = {D}\nc = {C}\ngrid = {GRID}\n[defence]\nfile = "defence.toml"\n'
    (folder / "service.toml").write_text(config + "[forget]\nseconds = 0.2\nupdates = 7\n")
    path = str(folder / "store.db")
    with opened(path) as store:
        tokens = Tokens(store.engine)
        given = {player.name: tokens.enrol(player.name) for player in players}
        tokens.enrol("op", "operator")
    command = [sys.executable, "-m", "exhume.cli.main", "serve", "--config", str(folder / "service.toml")]
    command[1:3] = ["-c", "from exhume.cli.main import main; main()"]
    for _ in range(kills):
        process = subprocess.Popen(
            [*command, "--port", "0", "--operator-port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = process.stdout.readline()
        if "Serving clients on " not in line:
            raise SystemExit(f"the service did not start: {line}")
        address, stop = line.split()[3], threading.Event()

        def play(player, address=address, stop=stop):
            headers = {"Authorization": f"Bearer {given[player.name]}"}
            with httpx.Client(base_url=address, headers=headers, timeout=20, trust_env=False) as http:
                while not stop.is_set():
                    key, body = player.next()
                    try:
                        answer = http.post("/v1/updates", content=body, headers={"Idempotency-Key": key})
                    except httpx.HTTPError:
                        return
                    if answer.status_code == 200:
                        told = answer.json()
                        player.answered(key, [told["accepted"], told["number"], told["serial"]], wrong)

        threads = [threading.Thread(target=play, args=(player,)) for player in players]
        for thread in threads:
            thread.start()
        enough, end = sum(len(p.answers) for p in players) + int(rng.geometric(1 / 8)), time.monotonic() + 60.0
        while sum(len(p.answers) for p in players) < enough and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0, 0.05)))
        process.kill()
        stop.set()
        for thread in threads:
            thread.join()
        process.wait()
        process.stdout.close()
    check(path, players, wrong)
    return kills


def play(kind, folder, seed, kills):
    """Return what went wrong in so many kills, and how much was sent."""
    rng = np.random.default_rng(seed)
    players = [Player(name, np.random.default_rng([seed, i])) for i, name in enumerate(CLIENTS)]
    wrong = Counter(lost=0, doubled=0, never_sent=0, other_receipt=0, ledger_differs=0)
    start = time.perf_counter()
    if kind == "light":
        path = str(folder / "store.db")
        opened(path).close()
        done = light(path, players, rng, wrong, kills)
        check(path, players, wrong)
    else:
        done = whole(folder, players, rng, wrong, kills)
    acknowledged = sum(len(player.answers) for player in players)
    return {"kills": done, "acknowledged": acknowledged, "seconds": round(time.perf_counter() - start, 1), **wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of the light process")
    parser.add_argument("--http-kills", type=int, default=0, help="of the whole service")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {}
    for kind, kills in (("light", given.kills), ("service", given.http_kills)):
        if kills:
            folder = Path(tempfile.mkdtemp(prefix="exhume-crash-"))
            try:
                found[kind] = play(kind, folder, given.seed, kills)
            finally:
                shutil.rmtree(folder)
    summed = {
        name: sum(run[name] for run in found.values()) for name in next(iter(found.values())) if name != "seconds"
    }
    result = {"benchmark": "crash", "unit": "messages", "smaller_is_better": True, **summed, "runs": found}
    if given.json:
        print(json.dumps(result, indent=2))
    else:
        print("  ".join(f"{name} {value}" for name, value in summed.items()))
    return int(any(summed[name] for name in ("lost", "doubled", "never_sent", "other_receipt", "ledger_differs")))


if __name__ == "__main__":
    sys.exit(main())
