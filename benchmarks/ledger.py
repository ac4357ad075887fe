"""Cost of one accepted update with its head, as a ratio to LAPACK's potrf and to refitting scikit-learn's Ridge.

Both references run in the same process, interleaved with what is measured, on one BLAS thread: NumPy's and SciPy's
wheels bring separate OpenBLAS thread pools, which fight each other on few cores. The update's matrices arrive
read-only, as the wire decodes them, and all input checks are inside the measured time. The least
disturbed repetition of each counts: other work on the machine only ever adds time.

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(d, repeats=max(5, min(60, 40_000 // d)), refit=d == 512) for d in options.dims]
    if options.json:
        print(
            json.dumps(
                {
                    "blas_threads": 1,
                    "update_over_potrf": {str(r["d"]): r["update_over_potrf"] for r in rows},
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


if __name__ == "__main__":
    main()
