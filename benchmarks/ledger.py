"""Cost of one accepted update with its head, as a ratio to LAPACK's potrf and to refitting scikit-learn's Ridge.

Both references run in the same process, interleaved with what is measured, on one BLAS thread: NumPy's and SciPy's
wheels bring separate OpenBLAS thread pools, which fight each other on few cores. The update's matrices arrive
read-only, as the wire decodes them, and all input checks are inside the measured time. The least
disturbed repetition of each counts: other work on the machine only ever adds time.

``low_rank_over_potrf`` is the same for an update of b rows, alternately added and deleted, that arrives as a factor at
a ledger with ``solver="low-rank"``; ``low_rank_amortised_over_potrf`` adds to each update its share of the new factor
that follows when the pending rank is full.

    python benchmarks/ledger.py [--dims 512 1024 2048 4096] [--json]
"""

import argparse
import json
import time

import numpy as np
from scipy.linalg.lapack import dpotrf
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.protocol.low_rank import SHARE

CLASSES, GAMMA, ROWS = 10, 1e-3, 60_000


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def read_only(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


def measure(d, repeats, refit):
    rng = np.random.default_rng(0)
    rows = ROWS if refit else 2 * d
    features = rng.standard_normal((rows, d)).clip(0)
    labels = rng.integers(0, CLASSES, rows)
    server = ex.Server(ex.Ledger(ex.Summary.of(features, labels, CLASSES), GAMMA))
    server.head()
    batch = ex.Summary.of(features[:64], labels[:64], CLASSES)
    add = read_only(batch.gram.copy(), batch.moment.copy())
    delete = read_only(np.zeros((d, d)), np.zeros((d, CLASSES)))
    state = np.asfortranarray(server.ledger.summary.gram + GAMMA * np.eye(d))
    work = np.empty_like(state, order="F")

    def update():
        server.submit(ex.Update(ex.Summary(*add), ex.Summary(*delete)), "client")

    def potrf():
        dpotrf(work, lower=1, clean=0, overwrite_a=1)

    updates, potrfs = [], []
    for _ in range(repeats):
        np.copyto(work, state)
        potrfs.append(timed(potrf))
        updates.append(timed(update))
    result = {
        "d": d,
        "update_ms": 1e3 * min(updates),
        "update_over_potrf": min(updates) / min(potrfs),
    }
    if refit:
        targets = np.eye(CLASSES)[labels]
        ridge = Ridge(alpha=GAMMA, fit_intercept=False, solver="cholesky")
        refits = [timed(lambda: ridge.fit(features, targets)) for _ in range(3)]
        result["refit_over_update"] = min(refits) / min(updates)
    return result


def measure_low_rank(d, b):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2 * d, d)).clip(0)
    total = ex.Summary.of(features, rng.integers(0, CLASSES, 2 * d), CLASSES)
    server = ex.Server(ex.Ledger(total, GAMMA, solver="low-rank"))
    server.head()
    state = np.asfortranarray(total.gram + GAMMA * np.eye(d))
    work = np.empty_like(state, order="F")
    cycle = d // SHARE // b
    updates, renewals, potrfs = [], [], []
    for i in range(max(10, min(40, 40_000 // d))):
        if i % 2 == 0:
            batch = ex.Summary.of(rng.standard_normal((b, d)).clip(0), rng.integers(0, CLASSES, b), CLASSES)
            parts = read_only(batch.factor.copy(), batch.moment.copy())

        def update(add=i % 2 == 0, parts=parts):
            summary = ex.Summary.factored(*parts)
            server.submit(ex.Update.adding(summary) if add else ex.Update.deleting(summary), "client")

        factorisations = server.ledger.factorisations
        spent = timed(update)
        (updates if server.ledger.factorisations == factorisations else renewals).append(spent)
        if i < 10:
            np.copyto(work, state)
            potrfs.append(timed(lambda: dpotrf(work, lower=1, clean=0, overwrite_a=1)))
    while len(renewals) < 3:
        dense = ex.Summary(*read_only(batch.gram.copy(), batch.moment.copy()))
        renewals.append(timed(lambda dense=dense: server.submit(ex.Update.adding(dense), "client")))
    whole = (cycle * min(updates) + min(renewals)) / (cycle + 1)
    return {
        "d": d,
        "b": b,
        "ms": 1e3 * min(updates),
        "over_potrf": min(updates) / min(potrfs),
        "amortised_over_potrf": whole / min(potrfs),
        "cycle": cycle + 1,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(d, repeats=max(5, min(200, 100_000 // d)), refit=d == 512) for d in options.dims]
        low = [measure_low_rank(d, b) for d in options.dims for b in (1, 16)]
    if options.json:
        print(
            json.dumps(
                {
                    "blas_threads": 1,
                    "update_over_potrf": {str(r["d"]): r["update_over_potrf"] for r in rows},
                    "low_rank_over_potrf": _by_rows(low, "over_potrf"),
                    "low_rank_amortised_over_potrf": _by_rows(low, "amortised_over_potrf"),
                    "refit_over_update": {
                        str(r["d"]): r["refit_over_update"] for r in rows if "refit_over_update" in r
                    },
                }
            )
        )
        return
    print("one accepted update with its head, checks included, one BLAS thread")
    for r in rows:
        refit = (
            f", refit on {ROWS:,} rows takes {r['refit_over_update']:.0f} x as long" if "refit_over_update" in r else ""
        )
        print(f"  d = {r['d']:5d}: {r['update_ms']:8.1f} ms = {r['update_over_potrf']:.2f} x potrf{refit}")
    print("with the low-rank solver, b rows as a factor; in brackets with its share of the next new factor")
    for r in low:
        line = f"  d = {r['d']:5d}, b = {r['b']:2d}: {r['ms']:8.2f} ms = {r['over_potrf']:.3f} x potrf"
        print(f"{line} ({r['amortised_over_potrf']:.3f} at one in {r['cycle']})")


def _by_rows(low, name):
    return {str(b): {str(r["d"]): r[name] for r in low if r["b"] == b} for b in (1, 16)}


if __name__ == "__main__":
    main()
