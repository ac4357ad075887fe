"""Speed of identification and of whole cells against a straight NumPy transcription of Algorithm 1, same run.

The reference does what the paper's pseudocode says, line by line: one ``np.linalg.solve`` per response,
``np.linalg.pinv`` both ways, ``matrix_rank`` and ``cond`` of both stacks, ``eigvalsh`` of both estimates; a cell of
it identifies the states before and after every deletion. Ours goes through the real server and client. All on one
BLAS thread; our cells use ``--jobs`` processes. The reference cell is timed on a few deletions and scaled; answers
must agree to 1e-9.

    python benchmarks/identify.py [--dims 512 768 1280 2048] [--jobs 2] [--json]
"""

import argparse
import json
import math
import time

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from exhume.attack import probes
from exhume.attack.estimate import read_off
from exhume.attack.estimate.direct import _direct
from exhume.attack.session import Attack
from exhume.numerics import relative
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario
from exhume.simulate.trial import Campaign

C, GAMMA, DELETIONS = 10, 1e-3, 100


def direct_at_any_size(transcript):
    """Algorithm 1 with its independent A, for sizes at which `direct` reads the answers off."""
    return _direct(transcript, 1e-10)


def scenario(d):
    """Non-negative features with a decaying spectrum, as an encoder gives; client 0 holds twice d rows."""
    rng = np.random.default_rng(0)
    rows = 8 * d
    mixing = rng.standard_normal((d, d)) * (1.0 / np.arange(1, d + 1) ** 0.5)
    labels = rng.integers(0, C, rows)
    centres = rng.standard_normal((C, d))
    features = np.maximum(rng.standard_normal((rows, d)) @ mixing.T + centres[labels], 0.0)
    parts = (np.arange(2 * d), np.arange(2 * d, rows))
    return Scenario(features, labels, C, parts, attacker=0, gamma=GAMMA)


def transcribed(A, G, totals):
    """Algorithm 1, line by line; totals yields (P_j or None, Q_j)."""
    d = len(A)
    W0 = np.linalg.solve(A, G)
    X, Z = [], []
    for P, Q in totals:
        W = np.linalg.solve(A if P is None else A + P, G + Q)
        X.append(W - W0)
        Z.append(Q if P is None else Q - P @ W)
    X, Z = np.hstack(X), np.hstack(Z)
    for stack in (X, Z):
        assert np.linalg.matrix_rank(stack, rtol=1e-10) == d
        np.linalg.cond(stack)
    raw_A, raw_H = Z @ np.linalg.pinv(X), X @ np.linalg.pinv(Z)
    np.linalg.norm(raw_A @ X - Z)
    np.linalg.norm(X - raw_H @ Z)
    estimate, inverse = (raw_A + raw_A.T) / 2, (raw_H + raw_H.T) / 2
    assert np.linalg.eigvalsh(estimate)[0] > 0 and np.linalg.eigvalsh(inverse)[0] > 0
    np.linalg.norm(estimate @ inverse - np.eye(d)) / math.sqrt(d)
    return estimate, estimate @ W0


def totals_of(probe):
    """The known running totals of a probe."""
    P, Q, moved = 0.0, 0.0, False
    for step in probe.steps():
        net = step.update.net
        Q = Q + net.moment
        if not net.gram_is_zero:
            P, moved = P + net.gram, True
        yield (P if moved else None), Q


def transcribed_cell(case, probe, rows):
    """The paper's program on some deletions: both states identified for each."""
    A = case.total.gram + GAMMA * np.eye(case.d)
    out = []
    for row in rows:
        block = case.summary(np.array([row]))
        before = transcribed(A, case.total.moment, totals_of(probe))
        after = transcribed(A - block.gram, case.total.moment - block.moment, totals_of(probe))
        out.append((before[0] - after[0], before[1] - after[1]))
    return out


def trials(campaign, rows):
    """Return what is asked of each trial: a trial itself holds its server and everybody's rows, too much to send."""
    with threadpool_limits(1):
        done = (campaign.trial(np.array([row]), methods=("difference",)) for row in rows)
        return [(trial.identified, trial.recovery("difference").relerr_gram) for trial in done]


def our_cell(case, probe, rows, jobs):
    campaign = Campaign(Federation.bare(case), probe, project=False)  # the transcription does not project either
    done = Parallel(n_jobs=jobs)(delayed(trials)(campaign, part) for part in np.array_split(rows, jobs))
    return [trial for part in done for trial in part]


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def one_identification(d):
    case = scenario(d)
    probe = probes.designed(d, C)
    A = case.total.gram + GAMMA * np.eye(d)
    server = Federation.bare(case).server
    server.head()
    attack = Attack(server.as_target("attacker"))
    ours = [timed(lambda: attack.identify(probe)) for _ in range(3 if d <= 1280 else 1)]
    reference, (estimate, _) = timed(lambda: transcribed(A, case.total.moment, totals_of(probe)))
    state = ours[0][1]
    gap = float(np.linalg.norm(state.A - estimate) / np.linalg.norm(estimate))
    assert gap < 1e-9, f"answers differ by {gap}"
    read = [timed(lambda: attack.identify(probe, estimate=read_off)) for _ in range(3 if d <= 1280 else 1)]
    transcript = attack.run(probe)
    algorithm_1 = state if state.diagnostics.e_AH is not None else direct_at_any_size(transcript)
    seconds = min(t for t, _ in ours)
    return {
        "d": d,
        "seconds": seconds,
        "reference": reference,
        "speedup": reference / seconds,
        "gap": gap,
        "read_off_speedup": reference / min(t for t, _ in read),
        "error": relative(algorithm_1.A - A, A),
        "read_off_error": relative(read[0][1].A - A, A),
    }


def one_cell(name, probe_of, jobs, sampled):
    case = scenario(512)
    probe = probe_of(case)
    rows = np.random.default_rng(1).choice(case.others, DELETIONS, replace=False)
    reference, blocks = timed(lambda: transcribed_cell(case, probe, rows[:sampled]))
    Parallel(n_jobs=jobs)(delayed(math.sqrt)(i) for i in range(jobs))  # start the workers outside the measured time
    seconds, done = timed(lambda: our_cell(case, probe, rows, jobs))
    assert all(identified for identified, _ in done)
    for row, (gram, _), (_, off) in zip(rows, blocks, done, strict=False):
        truth = case.summary(np.array([row])).gram
        theirs = np.linalg.norm(gram - truth) / np.linalg.norm(truth)
        assert abs(theirs - off) < 1e-3
    whole = reference * DELETIONS / sampled
    return {"cell": name, "seconds": seconds, "reference": whole, "speedup": whole / seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 768, 1280, 2048])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sampled", type=int, default=3, help="deletions on which the reference cell is timed")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [one_identification(d) for d in options.dims]
        designed = one_cell("designed", lambda case: probes.designed(512, C), options.jobs, options.sampled)
        data = one_cell(
            "attacker data, m = 104",
            lambda case: probes.own_data(*case.own, C, responses=104, rng=np.random.default_rng(0)),
            options.jobs,
            options.sampled,
        )
    sizes, seconds = np.log([r["d"] for r in rows]), np.log([r["seconds"] for r in rows])
    exponent = float(np.polyfit(sizes, seconds, 1)[0]) if len(rows) > 1 else None
    if options.json:
        print(
            json.dumps(
                {
                    "blas_threads": 1,
                    "jobs": options.jobs,
                    "identify_speedup": {str(r["d"]): r["speedup"] for r in rows},
                    "seconds": {str(r["d"]): r["seconds"] for r in rows},
                    "read_off_speedup": {str(r["d"]): r["read_off_speedup"] for r in rows},
                    "error": {str(r["d"]): r["error"] for r in rows},
                    "read_off_error": {str(r["d"]): r["read_off_error"] for r in rows},
                    "designed_cell_speedup": designed["speedup"],
                    "designed_cell_seconds": designed["seconds"],
                    "data_cell_speedup": data["speedup"],
                    "data_cell_seconds": data["seconds"],
                    "exponent": exponent,
                }
            )
        )
        return
    print("one identification with all diagnostics, server included, one BLAS thread")
    for r in rows:
        print(
            f"  d = {r['d']:5d}: {r['seconds']:7.2f} s, transcription {r['reference']:7.2f} s: "
            f"{r['speedup']:5.1f} x (answers differ by {r['gap']:.1e}); read off {r['read_off_speedup']:5.1f} x; "
            f"error of A {r['error']:.1e}, read off {r['read_off_error']:.1e}"
        )
    if exponent is not None:
        print(f"  growth exponent {exponent:.2f}")
    print(f"cells of {DELETIONS} record deletions at d = 512, {options.jobs} processes")
    for r in (designed, data):
        print(f"  {r['cell']}: {r['seconds']:.1f} s, transcription {r['reference']:.0f} s: {r['speedup']:.1f} x")


if __name__ == "__main__":
    main()
