"""Seconds a round on Flower beside the same round in process, and bytes per node and round, dense against factored.

Every node adds a batch and deletes one of its rows; the messages are summed, the head goes out to all. In process the
updates go to the server as they are. On the grid of this process they are written to Flower's bytes and read back, both
ways. Both are CPU seconds on one core. With --deploy a SuperLink and SuperNodes run as processes with TLS, and seconds
are those of the clock: each message then starts a process of Flower's.

    python benchmarks/flower.py [--dims 512 2048] [--nodes 4] [--rows 20] [--deploy] [--json]
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import exhume as ex

CLASSES, GAMMA = 10, 1e-3
APP = Path(__file__).parents[1] / "examples" / "flower"


def batches(d, nodes, rows, repeats):
    """Return the rows of every node: those that are there from the start, and a batch for every round."""
    rng = np.random.default_rng(0)
    held = {2 + k: rng.random((repeats + 1, d)) for k in range(nodes)}
    coming = {2 + k: rng.random((repeats + 1, rows, d)) for k in range(nodes)}
    labels = rng.integers(0, CLASSES, rows)
    return held, coming, labels


def updates(d, nodes, rows, repeats, factored):
    held, coming, labels = batches(d, nodes, rows, repeats)
    few = None if factored else False

    def of(node, number):
        add = ex.Summary.of(coming[node][number], labels, CLASSES, factored=few)
        return ex.Update(add, ex.Summary.of(held[node][number : number + 1], [0], CLASSES, factored=few))

    start = sum(
        (ex.Summary.of(rows_, [0] * len(rows_), CLASSES) for rows_ in held.values()), ex.Summary.zeros(d, CLASSES)
    )
    # Enough besides to make the state positive definite, whatever comes and goes.
    start = start + ex.Summary(np.eye(d) * d, np.zeros((d, CLASSES)))
    return start, {n: [of(node, n) for node in held] for n in range(repeats + 1)}, list(held)


def server_of(start):
    server = ex.Server(ex.Ledger(start, GAMMA))
    server.head()
    return server


def in_process(start, rounds, nodes):
    server, seconds = server_of(start), []
    for number in range(len(rounds)):
        begin = time.process_time()
        server.submit_round([(f"node {node}", update) for node, update in zip(nodes, rounds[number], strict=True)])
        seconds.append(time.process_time() - begin)
    return min(seconds[1:])


def on_grid(start, rounds, nodes, dense):
    from exhume.flower.book import MemoryBook
    from exhume.flower.client import client_app
    from exhume.flower.local import LocalGrid
    from exhume.flower.rounds import Postmaster, broadcast, play

    class Sender:
        def __init__(self, k):
            self.k = k

        def contribute(self, turn):
            return rounds[turn.number - 1][self.k]

        def hear(self, news):
            return {}

    apps = {node: client_app(lambda _, k=k: Sender(k), dense=dense) for k, node in enumerate(nodes)}
    grid, book, seconds, sizes = LocalGrid(apps), MemoryBook(server_of(start)), [], []
    post = Postmaster(grid)
    for _ in range(len(rounds)):
        before = sum(grid.received.values()), sum(grid.sent.values())
        begin = time.process_time()
        report = play(post, book, nodes)
        broadcast(post, book, nodes, report.receipts)
        seconds.append(time.process_time() - begin)
        assert report.taken == len(nodes), report.lines()
        sizes.append(
            [
                (sum(now.values()) - was) / len(nodes)
                for now, was in zip((grid.received, grid.sent), before, strict=True)
            ]
        )
    return min(seconds[1:]), sizes[-1]


def measure(d, nodes, rows, repeats):
    start, lean, names = updates(d, nodes, rows, repeats, True)
    _, wide, _ = updates(d, nodes, rows, repeats, False)
    result = {"d": d, "nodes": nodes, "rows": rows}
    for name, rounds, dense in (("dense", wide, True), ("factored", lean, False)):
        direct = in_process(start, rounds, names)
        carried, (up, down) = on_grid(start, rounds, names, dense)
        result[name] = {
            "in_process_s": direct,
            "grid_s": carried,
            "grid_over_in_process": carried / direct,
            "bytes_up": up,
            "bytes_down": down,
        }
    return result


def deployment(d, nodes, rows):
    """Return the median seconds of a round between processes, from the ServerApp's own log."""
    from exhume.flower.deploy import deployed

    config = {"dim": d, "partitions": nodes, "nodes": nodes, "rows": 3 * rows, "adding": 3, "rounds": 3}
    config |= {"unlearn-round": 0, "grid": 0.0, "timeout": 300.0}
    with (
        tempfile.TemporaryDirectory() as folder,
        deployed(Path(folder), [{"partition-id": k} for k in range(nodes)]) as made,
    ):
        run = made.run(APP, config)
        status = made.wait(run, timeout=900, pause=5)
        said = made.flwr("log", str(run), "exhume", "--show")
    assert status == "finished:completed", said
    seconds = [float(found) for found in re.findall(r"heard the head.*?; ([0-9.]+) s", said)]
    return {"d": d, "nodes": nodes, "rows": rows, "round_s": statistics.median(seconds), "rounds": len(seconds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--deploy", action="store_true", help="also between processes")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    try:
        import exhume.flower  # noqa: F401
    except ImportError as error:
        print(f"left out: {error}", file=sys.stderr)
        return
    with threadpool_limits(1):
        rows = [measure(d, options.nodes, options.rows, options.repeats) for d in options.dims]
    between = [deployment(d, options.nodes, options.rows) for d in options.dims] if options.deploy else []
    if options.json:
        print(json.dumps({"rounds": rows, "processes": between}))
        return
    for r in rows:
        for name in ("dense", "factored"):
            x = r[name]
            direct, carried = (f"{1e3 * x[key]:8.1f} ms" for key in ("in_process_s", "grid_s"))
            times = f"in process {direct}, grid {carried} ({x['grid_over_in_process']:.1f} x)"
            sizes = f"{x['bytes_up']:12,.0f} bytes up, {x['bytes_down']:10,.0f} down"
            print(f"d = {r['d']:5d} {name:9s}: {times}; per node {sizes}")
    for r in between:
        print(f"d = {r['d']:5d} between processes: {r['round_s']:.1f} s a round (median of {r['rounds']})")


if __name__ == "__main__":
    main()
