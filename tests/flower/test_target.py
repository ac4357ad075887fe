"""The malicious node: the same attack, over a folder and Flower's rounds, and what another node deletes comes out."""

import numpy as np
import pytest

import exhume as ex
from exhume.errors import ExhumeError, InputError, RefusedError
from exhume.flower.book import MemoryBook
from exhume.flower.client import Holder, client_app
from exhume.flower.local import LocalGrid
from exhume.flower.rounds import Clock, Postmaster, broadcast, play
from exhume.flower.target import Mailbox, MailboxTarget, Mole
from exhume.protocol.rules import AdmissionRule
from exhume.protocol.summary import Summary, Update
from exhume.protocol.target import Target
from tests.flower.conftest import C, D, rows_of

pytestmark = pytest.mark.flower
MOLE = 99


class Town:
    """Honest nodes and a mole; one of the honest ones deletes a row when told to."""

    def __init__(self, folder, admission=()):
        self.rows = rows_of((11, 12, 13))
        self.delete = False
        self.mailbox = Mailbox(folder)
        self.book = MemoryBook(ex.Server(ex.Ledger.zeros(D, C, 1e-2), admission=admission))
        apps = {
            n: client_app(lambda _, n=n: Holder(*self.rows[n], C, lambda number: self.wanted(n, number)))
            for n in self.rows
        }
        self.post = Postmaster(LocalGrid({**apps, MOLE: client_app(lambda _: Mole(self.mailbox))}), Clock(1.0, 0.01))
        self.gone = None

    def wanted(self, node, number):
        start = 1 if node == 12 and self.gone is not None and number >= self.gone else 0
        return range(start, 20)

    def round(self):
        report = play(self.post, self.book, self.post.nodes())
        broadcast(self.post, self.book, self.post.nodes(), report.receipts)
        return report

    def target(self):
        return MailboxTarget(self.mailbox, wait=self.round, timeout=20.0)


def test_a_mole_recovers_what_another_node_deletes(tmp_path):
    town = Town(tmp_path)
    town.round()
    target = town.target()
    assert isinstance(target, Target)
    attack = ex.Attack(target)
    probe = ex.probes.designed(D, C, scale=1e4)
    before = attack.identify(probe)
    town.gone = town.book.rounds + 1
    report = town.round()
    assert {a.client: a.status for a in report.answers}["node 12"] == "taken"
    after = attack.identify(probe)
    block = ex.recover.difference(before, after).block
    sample = block.as_sample()
    features, labels = town.rows[12]
    assert sample.label == labels[0]
    error = np.linalg.norm(sample.feature - features[0]) / np.linalg.norm(features[0])
    # Two states, each good to about eps * kappa, differ by a block of the size of one row in sixty.
    assert error < 1e-8
    # Honest in form: no answer of the mole was malformed, refused or late.
    assert town.book.server.counts.refused == 0


def test_one_submission_takes_one_round(tmp_path):
    town = Town(tmp_path)
    town.round()
    played = town.book.rounds
    head = town.target().submit(Update.adding(Summary.of(np.eye(D)[:1], [0], C)))
    assert town.book.rounds == played + 1 and head == town.book.server.head()


def test_a_refusal_comes_back(tmp_path):
    class Never(AdmissionRule):
        name = "never"

        def refuse(self, update, client):
            return "not from you" if client == f"node {MOLE}" else None

    town = Town(tmp_path, [Never()])
    town.round()
    with pytest.raises(RefusedError, match="not from you"):
        town.target().submit(Update.adding(Summary.of(np.eye(D)[:1], [0], C)))


def test_a_node_that_never_comes_is_an_error_and_the_update_is_withdrawn(tmp_path):
    mailbox = Mailbox(tmp_path)
    target = MailboxTarget(mailbox, wait=lambda: None, timeout=0.05)
    with pytest.raises(ExhumeError, match="withdrawn"):
        target.submit(Update.adding(Summary.of(np.eye(D)[:1], [0], C)))
    assert mailbox.fetch(1) is None


def test_asked_twice_for_a_round_it_gives_the_same_update(tmp_path):
    mailbox, update = Mailbox(tmp_path), Update.adding(Summary.of(np.eye(D)[:1], [0], C))
    mailbox.put(update)
    with pytest.raises(InputError, match="an update that waits"):
        mailbox.put(update)
    assert mailbox.fetch(3) == update == mailbox.fetch(3)
    assert mailbox.fetch(4) is None


def test_a_mailbox_is_a_folder(tmp_path):
    with pytest.raises(InputError, match="mailbox"):
        Mailbox(tmp_path / "nowhere")
