"""A whole history on the real hardened server, told in full: which labels of deleted records an attacker reads from it.

`noise_frontier.py` models the noise that a deletion is behind. Here the server is made as an operator makes it, and
twelve clients play a history on it: rows that they show come and go, one a message. The attacker is told the noise on
every total, so that it has every head there was and more, and all that happened but one deletion. Of all these totals
it takes the best combination for that deletion, and reads the label by Bayes' rule over a fifth of the rows, or because
it has the feature. So for each of `--trials` deletions of one history, the same number of each class.

    python benchmarks/played_history.py [--data digits mnist cifar10] [--events 1000] [--trials 200] [--seed 0]

MNIST and CIFAR-10 need ResNet-18 features (EXHUME_DATA_PATH, or `exhume data features`).
"""

import argparse
import json

import numpy as np
from threadpoolctl import threadpool_limits

import exhume as ex
from exhume.attack.recover.informed import Candidates, read_white
from exhume.data import load_features
from exhume.defence import Bounds
from exhume.defence.release import mask_of
from exhume.defence.release._packed import whole
from exhume.simulate.attackers._base import label_of_known

CLIENTS, GAMMA, HEADS_EVERY, CHUNK = 12, 1e-3, 25, 50


class History:
    """Clients with all rows, a server that they founded, and what is deleted and added in turn."""

    def __init__(self, name, options):
        encoder = {"dim": 256, "encoder": "random-relu"} if name == "digits" else {"encoder": "resnet18"}
        self.found = found = load_features(name, **encoder)
        self.F, self.y = np.asarray(found.train_features, dtype=float), found.train_labels
        rng, turns = np.random.default_rng(options.seed), options.events // 2
        order = rng.permutation(len(self.F))
        self.own, held = np.split(order, [len(order) // 5])
        per = min(options.trials, turns) // found.classes
        targets = np.concatenate([held[self.y[held] == k][:per] for k in range(found.classes)])
        others = np.setdiff1d(held, targets)[: max(turns - len(targets), 0)]
        self.gone = rng.permutation(np.concatenate([targets, others]))
        self.fresh = rng.choice(np.setdiff1d(order, self.gone), len(self.gone))  # somebody has an equal row already
        self.targets = {int(row): i for i, row in enumerate(targets)}
        self.server = ex.hardened(
            ex.Ledger.zeros(self.F.shape[1], found.classes, GAMMA),
            bounds=Bounds.measure(self.F, client_rows=len(self.F)),
            rows=len(self.F),
            founding=CLIENTS,
            horizon=2 * len(self.gone) + 2,
            key=f"{options.seed:032x}",
        )
        self.clients = [ex.Client(self.server, f"client {i}", show_rows=True) for i in range(CLIENTS)]
        parts = np.array_split(order, CLIENTS)
        self.owner = {int(row): client for client, part in zip(self.clients, parts, strict=True) for row in part}
        for client, part in zip(self.clients, parts, strict=True):
            client.add(self.F[part], self.y[part])

    def told(self):
        """Return what is told of the present: the measure, the size of a draw, and the noise on the totals."""
        return mask_of(self.server.release).told()

    def play(self):
        """Yield, after each event, the row that went (none, where one came), whether it was served, and points lost."""
        test = self.found.test_features, self.found.test_labels
        for i, row in enumerate(self.gone):
            for goes in (True, False):
                client = self.owner[int(row)] if goes else self.clients[i % CLIENTS]
                act, one = (client.delete, row) if goes else (client.add, self.fresh[i])
                receipt = act(self.F[[one]], self.y[[one]])
                lost = None
                if (2 * i + goes) % HEADS_EVERY == 0:
                    exact = ex.Head(self.server.ledger.head())
                    lost = 100 * (exact.accuracy(*test) - receipt.head.accuracy(*test))
                yield (int(row) if goes else None), receipt.accepted and receipt.head is not None, lost


def best_combinations(events, times, factorisation):
    """Return, per deletion, what to multiply the changes of all totals by: ``C' c_t / |c_t|^2``, C being the encoder.

    What is seen of the history is ``C x + z``: an event at time t is in it with column t of C.
    """
    encoder = factorisation.encoder(events)
    made, sizes = np.zeros((len(times), events)), np.empty(len(times))
    for i, t in enumerate(times):
        column = np.concatenate([np.zeros(t), encoder[: events - t]])
        sizes[i] = 1.0 / np.linalg.norm(column)
        # C' c: what each change adds to what is seen from then on.
        made[i] = sizes[i] ** 2 * np.correlate(np.concatenate([column, np.zeros(events - 1)]), encoder, "valid")
    return made, sizes


def read(history):
    """Return the shares of labels read without the feature and with it, and what the history cost."""
    first = history.told()
    events, draws = 2 * len(history.gone), first.draws
    assert draws.events == 1, "the founders' total is the first that has noise"
    times = {history.targets[int(row)]: 2 * i + 1 for i, row in enumerate(history.gone) if int(row) in history.targets}
    times = [times[i] for i in range(len(times))]
    combined, sizes = best_combinations(events + 1, times, draws.factorisation)
    before = draws.noise()
    seen, chunk = combined[:, :1] * before, []
    served, lost = 0, []
    for t, (_, taken, points) in enumerate(history.play(), 1):
        now = history.told().draws.noise()
        chunk.append(now - before)
        before, served = now, served + taken
        lost += [] if points is None else [points]
        if len(chunk) == CHUNK or t == events:
            seen += combined[:, t + 1 - len(chunk) : t + 1] @ np.array(chunk)
            chunk = []
    measure, F, y = first.measure, history.F, history.y
    factor = np.tril(measure.factor)
    own = Candidates(factor @ factor.T, measure.head, F[history.own], y[history.own], history.found.classes)
    limit, blind, known = mask_of(history.server.release)._figures.limit(measure), 0, 0
    for row, i in history.targets.items():
        gram, moment = draws.parts(seen[i].copy(), first.s, first.tau)
        event = measure.event(ex.Summary.of(F[[row]], y[[row]], history.found.classes))
        share, w = min(1.0, limit / mask_of(history.server.release).mu(event)), event.rows[:, 0]
        X, Y = share * np.outer(w, w) + whole(gram, draws.d), share * event.moment + moment
        blind += read_white(own, Y, sizes[i] * first.s, X, sizes[i] * first.tau).label == y[row]
        known += label_of_known(Y, w, measure.head, F[row]) == y[row]
    assert history.told().epoch == first.epoch, "the history outlived its epoch"
    trials = len(history.targets)
    return {
        "rows": len(F),
        "d": draws.d,
        "events": events,
        "served": served,
        "trials": trials,
        "blind": int(blind),
        "known": int(known),
        "lost": float(np.mean(lost)),
        "lost_error": float(np.std(lost, ddof=1) / np.sqrt(len(lost))),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    with threadpool_limits(1):
        found = {name: read(History(name, options)) for name in options.data}
    if options.json:
        print(json.dumps(found))
        return
    for name, r in found.items():
        print(f"{name}: {r['rows']} rows, d = {r['d']}, {r['events']} events, {r['served']} of them served at once")
        print(f"  labels of {r['trials']} deletions: {r['blind']} without the feature, {r['known']} with it", end="; ")
        print(f"{r['lost']:.2f} points lost (the noise of one history: its heads are alike; +- {r['lost_error']:.2f})")


if __name__ == "__main__":
    main()
