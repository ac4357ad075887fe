"""Point the audit at a server that is not ours:

exhume audit --target examples.audit_ranpac:target --i-operate-this-server

or just `python examples/audit_ranpac.py`.
"""

import sys
from pathlib import Path

from sklearn.datasets import load_digits

from exhume import Head, Update

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this file runs from any folder

from examples.ranpac_server import RanPAC


class RanPACTarget:
    """What a client of that server can do, in Exhume's words: look at the head, submit an update."""

    def __init__(self, server: RanPAC) -> None:
        self.server = server

    def head(self) -> Head:
        return Head(self.server.published_head(), "float64")

    def submit(self, update: Update) -> Head:
        self.server.merge(update.net.gram, update.net.moment)
        return self.head()


def target() -> RanPACTarget:
    digits = load_digits()
    server = RanPAC(inputs=64, projected=100, classes=10)
    server.learn(digits.data / 16, digits.target)
    return RanPACTarget(server)


if __name__ == "__main__":
    from exhume.cli.main import main

    sys.argv[1:] = ["audit", "--target", "examples.audit_ranpac:target", "--i-operate-this-server", *sys.argv[1:]]
    main()
