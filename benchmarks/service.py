"""What the service costs: served and durable, as a share of the bare `Server.submit` in one process.

    python benchmarks/service.py --json [--dim 512] [--clients 1 4 16] [--defence hardened | none]
    python benchmarks/service.py --json --clients --restart 1296 10000 --restart-dim 64

Every client has its messages encoded beforehand and sends them one after another over loopback; each is answered when
it is on the disk (`synchronous=FULL`). The bare server takes the same messages, decoded, in the same run. Records are
single rows, so messages are factored; `--dense` sends full matrices. Both sides have the same rules (`--defence
hardened` or `none`). Heads are read at a steady rate while others write.

A restart reads the snapshot and does the log since again, at most `forget.updates` (512) messages. Numbers of updates
that leave the same log (10,000 and 1,296: 272 messages) show whether it grows with the history; the second is a store
that took the same path a tenth as long.
"""

import argparse
import http.client
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from exhume.defence import Bounds, Config, hardened_config
from exhume.protocol import Summary, Update
from exhume.protocol.message import itemise
from exhume.protocol.wire import decode_update, encode_update
from exhume.service import Address, FederationService, Limits, serve
from exhume.store import Forgetting, OperatorKey, Sent, ServerSetup
from exhume.store import open as open_store
from exhume.store.setup import StepClock

CLASSES = 10


def messages(d, count, seed, dense, shown):
    """Return encoded additions of one record each."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        rows, labels = np.abs(rng.standard_normal((1, d))), rng.integers(0, CLASSES, 1)
        if dense:
            summary = Summary.of(rows, labels, CLASSES)
            update = Update.adding(Summary(np.array(summary.gram), np.array(summary.moment)))
        elif shown:
            update = itemise(CLASSES, add=(rows, labels))
        else:
            update = Update.adding(Summary.of(rows, labels, CLASSES))
        found.append(encode_update(update))
    return found


def setup_of(d, defence):
    config = Config()
    if defence == "hardened":
        bounds = Bounds(longest=100.0, message_rows=100, client_rows=10**6)
        config = hardened_config(d, bounds=bounds, rows=10_000, founding=1)
    return ServerSetup(d, CLASSES, 1.0, defence=config)


def bare(setup, encoded):
    """Return accepted updates a second of the server alone."""
    server = setup.server(setup.ledger(), StepClock(time.time()))
    updates = [decode_update(body) for body in encoded]
    server.submit(updates[0], "a")
    start = time.perf_counter()
    for update in updates[1:]:
        server.submit(update, "a")
    return (len(updates) - 1) / (time.perf_counter() - start)


def sender(told, bodies, name, seconds, start, out):
    """Be one client: send messages one after another for some seconds."""
    address, token = told.recv()
    link = http.client.HTTPConnection(*address)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    done = 0
    start.wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and done < len(bodies):
        link.request("POST", "/v1/updates", bodies[done], headers | {"Idempotency-Key": f"{name}-{done}"})
        answer = link.getresponse()
        content = answer.read()
        if answer.status != 200 or not json.loads(content)["accepted"]:
            raise SystemExit(f"not accepted: {content!r}")
        done += 1
    out.put((done, time.perf_counter() - end + seconds))


def reader(address, token, stop, times):
    link = http.client.HTTPConnection(*address)
    while not stop.is_set():
        start = time.perf_counter()
        link.request("GET", "/v1/head", headers={"Authorization": f"Bearer {token}"})
        link.getresponse().read()
        times.append(time.perf_counter() - start)
        time.sleep(0.01)


def served(setup, clients, seconds, bodies, folder):
    """Return accepted updates a second over loopback, and the times of head reads meanwhile."""
    # Forked before there is any thread here.
    context = multiprocessing.get_context("fork")
    out, start = context.Queue(), context.Event()
    share = len(bodies) // clients
    pipes = [context.Pipe(duplex=False) for _ in range(clients)]
    processes = [
        context.Process(
            target=sender,
            args=(pipe[0], bodies[i * share : (i + 1) * share], f"m{i}", seconds, start, out),
            daemon=True,
        )
        for i, pipe in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    store = open_store(str(folder / f"s{clients}.db"), setup, OperatorKey.make(), forgetting=Forgetting())
    service = FederationService(store, Limits(rows=100, per_minute=1e9, burst=10**9, queue=1024))
    tokens = [service.tokens.enrol(f"client-{i}") for i in range(clients + 1)]
    up, addresses = threading.Event(), []

    def started(found):
        addresses.extend(found)
        up.set()

    thread = threading.Thread(
        target=serve, args=(service, Address(port=0), Address(port=0)), kwargs={"started": started}
    )
    thread.start()
    up.wait()
    host, port = addresses[0].removeprefix("http://").split(":")
    for i, (_, pipe) in enumerate(pipes):
        pipe.send(((host, int(port)), tokens[i]))
    stop, times = threading.Event(), []
    watcher = threading.Thread(target=reader, args=((host, int(port)), tokens[-1], stop, times))
    watcher.start()
    begin = time.perf_counter()
    start.set()
    results = [out.get(timeout=seconds + 120) for _ in processes]
    taken = time.perf_counter() - begin
    stop.set()
    watcher.join()
    for process in processes:
        process.join()
    service.stop()
    thread.join()
    return sum(done for done, _ in results) / taken, sorted(times)


def restart(setup, count, bodies, folder):
    """Return the seconds in which a store with so many updates is open again, after a stop without a snapshot."""
    key, path = OperatorKey.make(), str(folder / f"restart-{setup.d}-{count}.db")
    store = open_store(path, setup, key, watch=False)
    for start in range(0, count, 64):
        store.commit(
            [
                [Sent("a", str(i), bodies[i % len(bodies)], decode_update(bodies[i % len(bodies)]))]
                for i in range(start, min(start + 64, count))
            ]
        )
    store._closed.set()
    store._lock.close()
    store._engine.dispose()
    start = time.perf_counter()
    again = open_store(path, setup, key, watch=False)
    seconds = time.perf_counter() - start
    replayed = again._logged
    assert again.published.counts.messages == count
    again.close()
    return {"dim": setup.d, "updates": count, "seconds": seconds, "done_again": replayed}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--defence", choices=["hardened", "none"], default="hardened")
    parser.add_argument("--dense", action="store_true", help="messages of full matrices")
    parser.add_argument("--restart", type=int, nargs="*", default=[], help="updates before a restart")
    parser.add_argument("--restart-dim", type=int, help="features of the restarted stores (default: as --dim)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    setup = setup_of(given.dim, given.defence)
    shown = given.defence == "hardened"
    bodies = messages(given.dim, given.messages, 0, given.dense and not shown, shown)
    rows = []
    with tempfile.TemporaryDirectory(prefix="exhume-service-") as name:
        for clients in given.clients:
            alone = bare(setup, bodies[:200])
            rate, times = served(setup, clients, given.seconds, bodies, Path(name))
            alone = statistics.mean([alone, bare(setup, bodies[:200])])  # before and after: the machine may be busy
            cut = statistics.quantiles(times, n=100) if len(times) > 1 else [float("nan")] * 99
            rows.append(
                {
                    "clients": clients,
                    "served_per_second": rate,
                    "bare_per_second": alone,
                    "served_share": rate / alone,
                    "head_p50_ms": 1e3 * cut[49],
                    "head_p99_ms": 1e3 * cut[98],
                    "head_reads": len(times),
                }
            )
        small = given.restart_dim or given.dim
        short = messages(small, 256, 1, given.dense and not shown, shown) if given.restart else []
        restarts = [restart(setup_of(small, given.defence), n, short, Path(name)) for n in given.restart]
    result = {
        "benchmark": "service",
        "dim": given.dim,
        "defence": given.defence,
        "message_bytes": len(bodies[0]),
        "served_share": rows[0]["served_share"] if rows else None,
        "rows": rows,
        "restarts": restarts,
    }
    if given.json:
        print(json.dumps(result, indent=2))
        return
    for row in rows:
        print(
            f"{row['clients']:>3} clients: {row['served_per_second']:.1f}/s served, "
            f"{row['bare_per_second']:.1f}/s bare, share {row['served_share']:.2f}; "
            f"head p50 {row['head_p50_ms']:.1f} ms, p99 {row['head_p99_ms']:.1f} ms"
        )
    for one in restarts:
        print(
            f"restart at d = {one['dim']} after {one['updates']} updates: {one['seconds']:.2f} s "
            f"({one['done_again']} done again)"
        )


if __name__ == "__main__":
    main()
