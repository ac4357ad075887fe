"""Seconds a round on Flower beside the same round in process, and bytes per node and round, dense against factored.

Every node adds a batch and deletes one of its rows; the messages are summed, the head goes out to all. In process the
updates go to the server as they are. On the grid of this process they are written to Flower's bytes and read back, both
ways. Both are CPU seconds on one core. With --deploy a SuperLink and SuperNodes run as processes with TLS and logins,
the ledger is in a durable store, and seconds are those of the clock: each message then starts a process of Flower's.
Dense, all three end in the same ledger, bit for bit, and the benchmark fails if they do not. A factor is rows after a
rotation: its product is their gram up to roundoff.

    python benchmarks/flower.py [--dims 512 2048] [--nodes 4] [--rows 20] [--forms dense factored] [--deploy] [--json]
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

import exhume as ex

APP = Path(__file__).parent / "flower_app"
sys.path.insert(0, str(APP))

from exhume_bench import CLASSES, GAMMA, rows_of, wanted  # noqa: E402

FORMS = ("dense", "factored")


def updates(d, nodes, rows, rounds, factored):
    """Return the messages of every round, in the order of nodes."""
    few = None if factored else False
    held = [rows_of(node, d, rows, rounds) for node in range(nodes)]

    def side(node, chosen):
        features, labels = held[node]
        return ex.Summary.of(features[chosen], labels[chosen], CLASSES, factored=few)

    def of(node, number):
        before, now = set(wanted(number - 1, rows)) if number > 1 else set(), set(wanted(number, rows))
        gone = sorted(before - now)
        delete = side(node, gone) if gone else ex.Summary.zeros(d, CLASSES)
        return ex.Update(side(node, sorted(now - before)), delete)

    return [[of(node, number) for node in range(nodes)] for number in range(1, rounds + 1)]


def server_of(d):
    return ex.Server(ex.Ledger.zeros(d, CLASSES, GAMMA))


def in_process(d, rounds):
    """Return the CPU seconds of the least disturbed round, and the ledger's hash at the end."""
    from exhume.flower.rounds import digest

    server, seconds = server_of(d), []
    for messages in rounds:
        begin = time.process_time()
        server.submit_round([(f"node {k}", update) for k, update in enumerate(messages)])
        seconds.append(time.process_time() - begin)
    return min(seconds[1:]), digest(server.ledger)


def on_grid(d, rounds, dense):
    """Return the CPU seconds of the least disturbed round, bytes up and down a node, and the ledger's hash."""
    from exhume.flower.book import MemoryBook
    from exhume.flower.client import client_app
    from exhume.flower.local import LocalGrid
    from exhume.flower.rounds import Postmaster, broadcast, digest, play

    class Sender:
        def __init__(self, k):
            self.k = k

        def contribute(self, turn):
            return rounds[turn.number - 1][self.k]

        def hear(self, news):
            return {}

    nodes = range(len(rounds[0]))
    ids = [2 + k for k in nodes]
    apps = {2 + k: client_app(lambda _, k=k: Sender(k), dense=dense) for k in nodes}
    grid, book, seconds, sizes = LocalGrid(apps), MemoryBook(server_of(d)), [], []
    post = Postmaster(grid)
    for _ in rounds:
        before = sum(grid.received.values()), sum(grid.sent.values())
        begin = time.process_time()
        report = play(post, book, ids)
        broadcast(post, book, ids, report.receipts)
        seconds.append(time.process_time() - begin)
        assert report.taken == len(ids), report.lines()
        now = sum(grid.received.values()), sum(grid.sent.values())
        sizes.append([(end - start) / len(ids) for end, start in zip(now, before, strict=True)])
    return min(seconds[1:]), sizes[-1], digest(book.server.ledger)


def deployment(d, nodes, rows, count, dense):
    """Return the seconds of every round between processes, by the ServerApp's own log, and the ledger's hash."""
    from exhume.flower.deploy import deployed

    config = {"dim": d, "nodes": nodes, "rows": rows, "rounds": count, "dense": dense}
    with (
        tempfile.TemporaryDirectory() as folder,
        deployed(Path(folder), [{"partition-id": k} for k in range(nodes)]) as made,
    ):
        run = made.run(APP, config)
        status = made.wait(run, timeout=300.0 * count, pause=5)
        said = made.flwr("log", str(run), "exhume", "--show")
    assert status == "finished:completed", said
    taken = re.findall(rf"round \d+ \(train\): {nodes} of {nodes} messages", said)
    seconds = [float(found) for found in re.findall(r"heard the head.*?; ([0-9.]+) s", said)]
    (ledger,) = re.findall(rf"{count} rounds, ledger ([0-9a-f]+)", said)
    assert len(taken) == len(seconds) == count, said
    return seconds, ledger


def measure(d, form, options):
    """Measure one form of messages at one number of features."""
    rounds = updates(d, options.nodes, options.rows, options.rounds, form == "factored")
    with threadpool_limits(1):
        direct, ledger = in_process(d, rounds)
        carried, (up, down), other = on_grid(d, rounds, form == "dense")
    found = {"d": d, "form": form, "nodes": options.nodes, "rows": options.rows, "bytes_up": up, "bytes_down": down}
    found |= {"in_process_s": direct, "grid_s": carried, "grid_over_in_process": carried / direct, "ledger": ledger}
    ledgers = {ledger, other}
    if options.deploy:
        seconds, between = deployment(d, options.nodes, options.rows, options.rounds, form == "dense")
        found |= {"deployed_s": statistics.median(seconds[1:]), "deployed_rounds_s": seconds}
        ledgers.add(between)
    if form == "dense" and len(ledgers) > 1:
        raise SystemExit(f"d = {d}, {form}: the ledgers differ")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4, help="the first only adds and is not counted")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--deploy", action="store_true", help="also between processes")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2: the first is not counted")
    try:
        import exhume.flower  # noqa: F401
    except ImportError as error:
        print(f"left out: {error}", file=sys.stderr)
        return
    found = [measure(d, form, options) for d in options.dims for form in options.forms]
    if options.json:
        print(json.dumps(found))
        return
    for r in found:
        direct, carried = (f"{1e3 * r[key]:.1f} ms" for key in ("in_process_s", "grid_s"))
        times = f"in process {direct}, grid {carried} ({r['grid_over_in_process']:.1f} x)"
        if "deployed_s" in r:
            times += f", between processes {r['deployed_s']:.1f} s"
        sizes = f"{r['bytes_up']:,.0f} bytes up, {r['bytes_down']:,.0f} down"
        print(f"d = {r['d']}, {r['form']}: {times}; per node {sizes}")


if __name__ == "__main__":
    main()
