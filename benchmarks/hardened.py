"""Cost of one message to the hardened server, head included, as a ratio to LAPACK's potrf at the same size and time.

From the submission to the released head: admission by bounds and rows, ledger, noise, solve, account. A record comes
and goes in turn; at the beginning, and after `--history` more messages, which must not cost more. The bare server is
beside it, so are a head that is asked for again and a message that is refused (a deletion of what the client does not
have), and the two things that no event can do without: its draw, and the factor of the noisy gram with the solve.
Factorisations are timed between the messages, so that a busy machine slows both.

    python benchmarks/hardened.py [--dims 512 2048] [--turns 20] [--history 400] [--json]
"""

import argparse
import json
import time

import numpy as np
from scipy.linalg.lapack import dpftrf, dpftrs, dpotrf, dtrttf
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.defence import Bounds
from exhume.protocol import Ledger, Server, Summary, itemise

C, GAMMA = 10, 1e-3


def timed(call):
    start = time.process_time()  # a loaded machine takes the processor away: what counts is time on it
    call()
    return time.process_time() - start


def measure(d, turns, history):
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((3 * d, d)).clip(0), rng.integers(0, C, 3 * d)
    state = np.asfortranarray(features.T @ features + GAMMA * np.eye(d))
    work = np.empty_like(state, order="F")
    start = Summary.of(features[: 2 * d], labels[: 2 * d], C)
    hardened = ex.hardened(Ledger(start, GAMMA), bounds=Bounds.measure(features, client_rows=d), rows=2 * d)
    servers = {"bare": Server(Ledger(start, GAMMA)), "hardened": hardened}

    def potrf():
        np.copyto(work, state)
        return timed(lambda: dpotrf(work, lower=1, clean=0, overwrite_a=1))

    def ratios(server, first):
        found = {"comes": [], "goes": []}
        for i in range(turns):
            row = (features[[first + i]], labels[[first + i]])
            for name, made in (("comes", itemise(C, add=row)), ("goes", itemise(C, delete=row))):
                reference = potrf()
                seconds = timed(lambda made=made: server.submit(made, f"client {first % 7}"))
                found[name].append(seconds / (0.5 * (reference + potrf())))
        return {name: float(np.median(values[2:])) for name, values in found.items()}

    def ratio(call):
        found = []
        for _ in range(turns):
            reference = potrf()
            found.append(timed(call) / (0.5 * (reference + potrf())))
        return float(np.median(found[2:]))

    made = {name: ratios(server, 2 * d) for name, server in servers.items()}
    stranger = itemise(C, delete=(features[[2 * d]], labels[[2 * d]]))
    others = {"again": ratio(hardened.head), "refused": ratio(lambda: hardened.submit(stranger, "a stranger"))}
    triangle, moment = dtrttf(state, uplo="L")[0], np.ones((d, C))
    normals, rng = d * (d + 1) // 2 + d * C, np.random.Generator(np.random.PCG64DXSM(1))
    others["draw"] = ratio(lambda: rng.standard_normal(normals))
    others["factor_and_solve"] = ratio(lambda: dpftrs(d, dpftrf(d, triangle, uplo="L")[0], moment, uplo="L"))
    for i in range(history):
        row = (features[[2 * d + 50 + i % 50]], labels[[2 * d + 50 + i % 50]])
        hardened.submit(itemise(C, add=row) if i // 50 % 2 == 0 else itemise(C, delete=row), "somebody")
    return {"d": d, **made, "hardened_later": ratios(hardened, 2 * d + 20), "others": others}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--history", type=int, default=400)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(d, options.turns, options.history) for d in options.dims]
    if options.json:
        print(json.dumps({"blas_threads": 1, "history": options.history, "rows": rows}))
        return
    print(f"one message with its head, in factorisations; later: after {options.history} more messages")
    for row in rows:
        cells = [f"{name} {c['comes']:.2f} / {c['goes']:.2f}" for name, c in row.items() if name not in ("d", "others")]
        print(f"  d = {row['d']:5d}, comes / goes: " + ", ".join(cells))
        print("    " + ", ".join(f"{name} {value:.3f}" for name, value in row["others"].items()))


if __name__ == "__main__":
    main()
