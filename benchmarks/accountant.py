"""Cost of the identification accountant per release, as a ratio to LAPACK's potrf at the same size, in the same run.

One client probes with rank-c responses until its stack is almost full; every release is reviewed and observed. The
median is over a whole run from rank 0 to rank d, the worst is that of its last tenth; `exposure` is asked at its end.
Beside it stands the
posterior noise of one release (state digest, draw and triangular solve), and the two masks, from the step's beginning
to what it leaves behind: the deletion mask after an addition (one more factorisation) and after a deletion (its draw
and all checks), and the continual noise of the hardened server after a record that came, one that went, and a block of
64 rows.

    python benchmarks/accountant.py [--dims 512 1024 2048] [--colluders 1] [--json]
"""

import argparse
import json
import time

import numpy as np
from scipy.linalg.lapack import dpotrf
from threadpoolctl import threadpool_limits

from exhume.defence import IdentificationAccountant, PosteriorNoise
from exhume.defence.release import ContinualNoise, DeletionMask
from exhume.protocol import Counts, Head, Ledger, Occasion, Summary, Update

C, GAMMA = 10, 1e-3


def timed(call):
    start = time.process_time()  # a loaded machine takes the processor away: what counts is time on it
    call()
    return time.process_time() - start


def measure(d, colluders):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2 * d, d)).clip(0)
    ledger = Ledger(Summary.of(features, rng.integers(0, C, 2 * d), C), GAMMA)
    head = ledger.head()
    state = np.asfortranarray(ledger.summary.gram + GAMMA * np.eye(d))
    work = np.empty_like(state, order="F")
    accountant = IdentificationAccountant(1, action="report", colluders=colluders)
    update = Update.adding(Summary.zeros(d, C).with_moment(np.ones((d, C))))
    accountant.observe(Head(head), Head(head), Occasion(ledger, (), (), Counts()))
    noise = PosteriorNoise(0.2, b"0" * 32)
    potrfs, accounts, noises = [], [], []
    for turn in range(d // C):
        exact = Head(head + rng.standard_normal((d, C)))
        occasion = Occasion(ledger, ("mallory",), (update,), Counts())

        def account(exact=exact, occasion=occasion):
            accountant.review(exact, exact, occasion)
            accountant.observe(exact, exact, occasion)

        accounts.append(timed(account))
        if turn % 5 == 0:
            np.copyto(work, state)
            potrfs.append(timed(lambda: dpotrf(work, lower=1, clean=0, overwrite_a=1)))
            noises.append(timed(lambda exact=exact, occasion=occasion: noise.release(exact, occasion)))
    asked = [timed(lambda: accountant.exposure("mallory"))]
    accountant.observe(Head(head), Head(head), Occasion(ledger, ("mallory",), (update,), Counts()))  # nothing is kept
    asked.append(timed(lambda: accountant.exposure("mallory")))
    assert accountant.exposure("mallory").rank == d // C * C
    adds, deletes = masks(DeletionMask(0.1, key=b"0" * 32), ledger, features, {"add": 1, "delete": 1})
    continual = masks(
        ContinualNoise(0.1, key=b"0" * 32),
        ledger,
        features,
        {"add": 1, "delete": 1, "add_block": 64, "delete_block": 64},
    )
    reference = float(np.median(potrfs))
    return {
        "d": d,
        "potrf_ms": 1e3 * reference,
        "exposure_over_potrf": max(asked) / reference,
        "typical_over_potrf": float(np.median(accounts)) / reference,
        "worst_over_potrf": float(np.median(accounts[-max(len(accounts) // 10, 1) :])) / reference,
        "noise_over_potrf": float(np.median(noises)) / reference,
        "mask_addition_over_potrf": adds / reference,
        "mask_deletion_over_potrf": deletes / reference,
        "continual_over_potrf": [seconds / reference for seconds in continual],
    }


def masks(rule, ledger, features, sizes, turns=7):
    """Return the median seconds that a rule takes for a head after additions and deletions of some sizes."""
    head, times = Head(ledger.head()), {name: [] for name in sizes}
    rule.release(head, Occasion(ledger, (), (), Counts()))
    rule.record(head, Occasion(ledger, (), (), Counts()))
    for turn in range(turns + 1):
        for name in sorted(sizes):  # additions first
            rows = features[turn : turn + sizes[name]]
            block = Summary.of(rows, [0] * len(rows), C)
            update = Update.deleting(block) if name.startswith("delete") else Update.adding(block)
            ledger.apply(update)
            occasion = Occasion(ledger, (f"client {turn % 3}",), (update,), Counts(submissions=turn))

            def step(occasion=occasion):
                rule.checkpoint(occasion.clients)
                rule.release(head, occasion)
                rule.record(head, occasion)

            times[name].append(timed(step))
    return [float(np.median(times[name][1:])) for name in sizes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--colluders", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(d, options.colluders) for d in options.dims]
    if options.json:
        print(json.dumps({"blas_threads": 1, "colluders": options.colluders, "rows": rows}))
        return
    print(f"accounting of one release, up to {options.colluders} colluders, one BLAS thread")
    for r in rows:
        print(
            f"  d = {r['d']:5d}: median {r['typical_over_potrf']:.2f} x potrf ({r['potrf_ms']:.1f} ms), "
            f"near full rank {r['worst_over_potrf']:.2f} x, "
            f"exposure {r['exposure_over_potrf']:.2f} x; posterior noise {r['noise_over_potrf']:.2f} x; "
            f"mask after an addition {r['mask_addition_over_potrf']:.2f} x, a deletion "
            f"{r['mask_deletion_over_potrf']:.1f} x"
        )
        came, went, block, without = r["continual_over_potrf"]
        print(
            f"             continual: a record comes {came:.2f} x, goes {went:.2f} x; 64 rows come {block:.2f} x, "
            f"go {without:.2f} x"
        )


if __name__ == "__main__":
    main()
