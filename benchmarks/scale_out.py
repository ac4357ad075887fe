"""What a round costs for many clients: constants measured here, and a tree of sums that is bitwise the flat sum.

Two parts. The constants: CPU seconds to read, judge and sum one message, to check it by each rule of the hardened
server, to factor and release once a round, and bytes, all at one d on one core. The tree: messages of simulated clients
in grid mode are made, encoded, decoded and summed by Dask workers, eight at a time up a tree, and compared bit for bit
with the sum in order.

    python benchmarks/scale_out.py [--dim 512] [--clients 10000] [--json]
"""

import argparse
import hashlib
import json
import os
import time

import numpy as np
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.defence import Bounds
from exhume.protocol.grid import snap
from exhume.protocol.message import itemise
from exhume.protocol.wire import decode_update, encode_head, encode_update

CLASSES, GAMMA, GRID, ROWS = 10, 1e-3, 2.0**-8, 10
TREE_DIM, LEAF, FAN = 64, 50, 8
SIZES = (10**3, 10**5, 10**6)


def best(call, repeats=5):
    """CPU seconds of the least disturbed repetition."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def constants(d):
    """Return what one message and one round cost at this d."""
    rng = np.random.default_rng(0)
    rows, labels = rng.random((ROWS, d)), rng.integers(0, CLASSES, ROWS)
    public = rng.random((2 * d, d)), rng.integers(0, CLASSES, 2 * d)
    lean = encode_update(ex.Update.adding(ex.Summary.of(rows, labels, CLASSES)))
    wide = encode_update(ex.Update.adding(ex.Summary.of(rows, labels, CLASSES, factored=False)))
    update, total = decode_update(wide), ex.Summary.of(*public, CLASSES)
    server = ex.hardened(
        ex.Ledger(total, GAMMA),
        bounds=Bounds.measure(public[0], client_rows=200, message_rows=50),
        rows=10 * d,
        public=public,
    )
    shown = itemise(CLASSES, add=(rows, labels))
    rules = {rule.name: best(lambda rule=rule: rule.refuse(shown, "a")) for rule in server.admission}
    ledger = ex.Ledger(total, GAMMA)
    head = ex.Head(ledger.head(), "float32")

    def factored():
        ledger._load(None)
        ledger._refactor()
        ledger.head()

    def submitted():
        server.submit(itemise(CLASSES, add=(rng.random((ROWS, d)), labels)), "a")

    return {
        "d": d,
        "rows": ROWS,
        "bytes_dense": len(wide),
        "bytes_factored": len(lean),
        "bytes_with_rows": len(encode_update(shown)),
        "bytes_head": len(encode_head(head)),
        "read_dense_s": best(lambda: decode_update(wide)),
        "read_factored_s": best(lambda: decode_update(lean)),
        "sum_dense_s": best(lambda: total + update.add),
        "sum_factored_s": best(lambda: total + decode_update(lean).add) - best(lambda: decode_update(lean)),
        "rules_s": rules,
        "factor_and_head_s": best(factored),
        "hardened_step_s": best(submitted),
        "accountant": accountant(d),
    }


def accountant(d):
    """Return what the account of identification costs a client and round, from rounds of 8 and of 24 clients."""
    from exhume.defence.accountants import REGISTRY

    rng = np.random.default_rng(1)
    seconds = {}
    for count in (8, 24):
        start = ex.Summary.of(rng.random((2 * d, d)), rng.integers(0, CLASSES, 2 * d), CLASSES)
        server = ex.Server(ex.Ledger(start, GAMMA), accountant=REGISTRY["identification"](margin=d - 1))
        server.head()

        def round_(server=server, count=count):
            server.submit_round(
                [(f"c{k}", ex.Update.adding(ex.Summary.of(rng.random((4, d)), [0] * 4, CLASSES))) for k in range(count)]
            )

        seconds[count] = best(round_)
    return {"client_s": max(seconds[24] - seconds[8], 0.0) / 16}


def costs(found):
    """Return the cost of a round for each number of clients, from the constants."""
    rules = sum(found["rules_s"].values())
    return [
        {
            "clients": clients,
            "bytes_in_dense": clients * found["bytes_dense"],
            "bytes_in_factored": clients * found["bytes_factored"],
            "bytes_in_with_rows": clients * found["bytes_with_rows"],
            "bytes_out": clients * found["bytes_head"],
            "read_s": clients * found["read_factored_s"],
            "sum_s": clients * found["sum_factored_s"],
            "rules_s": clients * rules,
            "accountant_s": clients * found["accountant"]["client_s"],
            "factor_s": found["factor_and_head_s"],
        }
        for clients in SIZES
    ]


def message(number):
    """Return one client's message, as bytes: rows on the grid to add, one of them to delete again."""
    rng = np.random.default_rng([7, number])
    rows, labels = snap(rng.random((5, TREE_DIM)), GRID), rng.integers(0, CLASSES, 5)
    add = ex.Summary.of(rows, labels, CLASSES, factored=False)
    return encode_update(ex.Update(add, ex.Summary.of(rows[:1], labels[:1], CLASSES, factored=False)))


def leaf(numbers):
    """Sum the messages of some clients."""
    return summed([decode_update(message(number)) for number in numbers])


def summed(updates):
    """Sum updates in order."""
    total = updates[0]
    for update in updates[1:]:
        total = total + update
    return total


def digest(update):
    parts = (update.add.gram, update.add.moment, update.delete.gram, update.delete.moment)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


def tree(clients, workers):
    """Sum all messages on a Dask cluster of this machine, and in order in this process."""
    from distributed import Client, LocalCluster

    blocks = [range(i, min(i + LEAF, clients)) for i in range(0, clients, LEAF)]
    # Leaves are shuffled: on the grid neither the order nor the shape of the tree matters.
    order = np.random.default_rng(0).permutation(len(blocks))
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        start = time.perf_counter()
        level = client.map(leaf, [blocks[i] for i in order])
        depth = 1
        while len(level) > 1:
            level = [client.submit(summed, level[i : i + FAN]) for i in range(0, len(level), FAN)]
            depth += 1
        found = level[0].result()
        took = time.perf_counter() - start
    start = time.perf_counter()
    flat = summed([decode_update(message(0))])
    for number in range(1, clients):
        flat = flat + decode_update(message(number))
    alone = time.perf_counter() - start
    return {
        "clients": clients,
        "d": TREE_DIM,
        "workers": workers,
        "leaf": LEAF,
        "fan_in": FAN,
        "levels": depth,
        "tree_s": took,
        "flat_s": alone,
        "pairs": found.pairs,
        "digest_tree": digest(found),
        "digest_flat": digest(flat),
        "equal": digest(found) == digest(flat),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        found = constants(options.dim)
        table, done = costs(found), tree(options.clients, options.workers)
    if options.json:
        print(json.dumps({"constants": found, "rounds": table, "tree": done}))
    else:
        show(found, table, done)
    if not done["equal"]:
        raise SystemExit("the tree's sum is not the flat one")


def show(found, table, done):
    for name, value in found.items():
        print(f"{name:18s} {value}")
    for row in table:
        print("  ".join(f"{name} {value:.3g}" for name, value in row.items()))
    print("  ".join(f"{name} {value}" for name, value in done.items()))


if __name__ == "__main__":
    main()
