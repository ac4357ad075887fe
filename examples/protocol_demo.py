"""The protocol in one minute: three clients add digits, one deletes some, and the head equals retraining."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

import exhume as ex

GAMMA = 1e-3

X, y = load_digits(return_X_y=True)
X = X / 16.0
parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 3)

server = ex.Server(ex.Ledger.zeros(d=64, c=10, gamma=GAMMA))
clients = [ex.Client(server, name) for name in ("alice", "bob", "carol")]
for client, rows in zip(clients, parts, strict=True):
    client.add(X[rows], y[rows])
print(f"three clients added {len(X)} digits: accuracy {server.head().accuracy(X, y):.2%}")

gone, kept = parts[1][:100], np.concatenate([parts[0], parts[1][100:], parts[2]])
clients[1].delete(X[gone], y[gone])
retrained = Ridge(alpha=GAMMA, fit_intercept=False, solver="cholesky").fit(X[kept], np.eye(10)[y[kept]]).coef_.T
gap = np.linalg.norm(server.head().weights - retrained) / np.linalg.norm(retrained)
print(f"bob deleted {len(gone)} of them: head differs from retraining without them by {gap:.1e} (relative)")

exact = ex.Server(ex.Ledger.zeros(d=64, c=10, gamma=GAMMA, grid=2.0**-8))
never = ex.Server(ex.Ledger.zeros(d=64, c=10, gamma=GAMMA, grid=2.0**-8))
dora = ex.Client(exact, "dora")
dora.add(X, y)
dora.delete(X[gone], y[gone])
ex.Client(never, "dora").add(X[kept], y[kept])
same = exact.ledger.summary == never.ledger.summary and exact.head().weights.tobytes() == never.head().weights.tobytes()
print(f"on a dyadic grid the same is bitwise equal to never having seen them: {same}")
counts = server.counts
print(f"the server counted {counts.messages} messages and {counts.broadcasts} broadcasts")
