"""Rounds: who is in the ledger and who is not, when nodes answer late, twice, wrongly or not at all."""

import copy
import logging

import numpy as np
import pytest
from flwr.app import Array, ConfigRecord, Error, Message

from exhume.defence.admission.positive_semidefinite import PositiveSemidefinite
from exhume.errors import InputError
from exhume.flower.book import MemoryBook
from exhume.flower.client import Holder, client_app
from exhume.flower.local import LocalGrid
from exhume.flower.rounds import UNLEARN, Clock, Postmaster, RoundFailedError, broadcast, digest, play
from exhume.flower.server import Setup, _measured, run
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import AdmissionRule
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary, Update
from tests.flower.conftest import C, D, FaultyGrid, numpy_totals

pytestmark = pytest.mark.flower

QUICK = Clock(timeout=0.05, pause=0.01, patience=0.05)


def same_bits(book, totals):
    found = book.server.ledger.summary
    return found.gram.tobytes() == totals[0].tobytes() and found.moment.tobytes() == totals[1].tobytes()


def test_rounds_give_what_numpy_gives(apps, nodes, book):
    reports = run(LocalGrid(apps), Setup(book, rounds=5, nodes=4))
    assert [report.taken for report in reports] == [4] * 5
    assert book.server.counts.submissions == 5  # one logical submission a round, whatever number of messages
    assert book.server.counts.broadcasts == 5
    assert same_bits(book, numpy_totals(nodes, 5))


def test_factors_give_the_same_up_to_roundoff_in_fewer_bytes(apps, lean_apps, nodes, book):
    dense, lean = LocalGrid(apps), LocalGrid(lean_apps)
    other = MemoryBook(Server(Ledger.zeros(D, C, gamma=1e-2)))
    run(dense, Setup(book, rounds=5, nodes=4))
    run(lean, Setup(other, rounds=5, nodes=4))
    ours, theirs = book.server.ledger.summary.gram, other.server.ledger.summary.gram
    # Each entry is a sum of at most 5 rounds x 4 nodes x 4 rows of products below the largest diagonal entry.
    assert np.abs(ours - theirs).max() <= 80 * 2 * np.finfo(float).eps * np.abs(np.diag(ours)).max()
    assert all(lean.received[n] < dense.received[n] for n in nodes)


def lied(records):
    records["update"]["add.gram"] = Array(np.full((D, D), np.nan))
    return records


def changed(answer, change):
    altered = copy.deepcopy(answer)
    change(altered.content)
    return altered


FAULTS = {
    "an error": (lambda answer, asked: [Message(Error(8, "crashed"), reply_to=asked)], "failed"),
    "no answer": (lambda answer, asked: [], "late"),
    "nan": (lambda answer, asked: [changed(answer, lied)], "malformed"),
    "a wrong size": (
        lambda answer, asked: [changed(answer, lambda r: r["update"].update({"add.moment": Array(np.eye(D))}))],
        "malformed",
    ),
    "another round": (
        lambda answer, asked: [
            changed(answer, lambda r: r.update({"exhume": ConfigRecord(dict(r["exhume"]) | {"round": 99})}))
        ],
        "malformed",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_node_that_fails_is_not_in_the_ledger_and_the_log_says_so(fault, apps, nodes, book, caplog):
    caplog.set_level(logging.INFO, "exhume.flower")
    make, status = FAULTS[fault]
    post = Postmaster(FaultyGrid(apps, {12: make}), QUICK)
    report = play(post, book, post.nodes())
    assert {a.node: a.status for a in report.answers} == {11: "taken", 12: status, 13: "taken", 14: "taken"}
    assert same_bits(book, numpy_totals(nodes, 1, lost={(1, 12)}))
    assert f"node 12 {status}, its rows are not in the ledger" in caplog.text
    # Its rows come with its next message, once.
    post.grid.faults.clear()
    play(post, book, post.nodes())
    assert same_bits(book, numpy_totals(nodes, 2, lost={(1, 12)}))


FORGED = "x\nexhume: 9 rounds, ledger 00\r\x1b[2K"
FORGERS = {
    "an error's reason": lambda answer, asked: [Message(Error(8, FORGED), reply_to=asked)],
    "an array's name": lambda answer, asked: [
        changed(answer, lambda r: r["update"].update({FORGED: Array(np.eye(2))}))
    ],
    "an array's kind": lambda answer, asked: [
        changed(answer, lambda r: setattr(r["update"]["add.gram"], "stype", FORGED))
    ],
}


@pytest.mark.parametrize("forger", FORGERS)
def test_a_node_cannot_write_lines_of_the_log(forger, apps, nodes, book):
    post = Postmaster(FaultyGrid(apps, {12: FORGERS[forger]}), QUICK)
    report = play(post, book, post.nodes())
    assert all(line.isprintable() for line in report.lines())
    assert len(report.lines()) == 2 and same_bits(book, numpy_totals(nodes, 1, lost={(1, 12)}))


def test_a_long_reason_is_cut(apps, book):
    post = Postmaster(FaultyGrid(apps, {12: lambda a, asked: [Message(Error(8, "x" * 10**6), reply_to=asked)]}), QUICK)
    assert max(map(len, play(post, book, post.nodes()).lines())) < 500


@pytest.mark.parametrize(
    "said", [{"accuracy": float("nan")}, {"rows": 1e300}, {"accuracy": 7.0}, {"rows": -5.0}], ids=str
)
def test_what_a_node_says_of_a_head_does_not_spoil_the_mean(said, apps, book):
    def boasting(answer, asked):
        if asked.metadata.message_type == "evaluate":
            answer.content["metrics"].update(said)
        return [answer]

    post = Postmaster(FaultyGrid(apps, {11: boasting}), QUICK)
    play(post, book, post.nodes())
    heard = broadcast(post, book, post.nodes())
    others = {node: values for node, values in heard.items() if node != 11}
    assert len(heard) == 4 and "accuracy 0." in _measured(others)
    assert _measured(heard) == _measured(others).replace("3 nodes", "4 nodes")


def test_a_second_answer_does_not_count(apps, nodes, book):
    post = Postmaster(FaultyGrid(apps, {11: lambda answer, asked: [answer, answer]}), QUICK)
    report = play(post, book, post.nodes())
    assert report.doubles == 1 and report.taken == 4
    assert same_bits(book, numpy_totals(nodes, 1))


def test_an_answer_counts_for_the_node_that_was_asked_whatever_it_says(apps, nodes, book):
    def disguised(answer, asked):
        answer.metadata.__dict__["_src_node_id"] = 14
        return [answer]

    post = Postmaster(FaultyGrid(apps, {11: disguised, 14: lambda answer, asked: []}), QUICK)
    report = play(post, book, post.nodes())
    assert {a.client: a.status for a in report.answers}["node 11"] == "taken"
    assert {a.client: a.status for a in report.answers}["node 14"] == "late"
    assert same_bits(book, numpy_totals(nodes, 1, lost={(1, 14)}))


def test_an_answer_to_another_message_counts_for_nobody(apps, nodes, book):
    def misdirected(answer, asked):
        answer.metadata.__dict__["_reply_to_message_id"] = "f" * 64
        return [answer]

    post = Postmaster(FaultyGrid(apps, {13: misdirected}), QUICK)
    report = play(post, book, post.nodes())
    assert report.strays >= 1 and report.taken == 3
    assert same_bits(book, numpy_totals(nodes, 1, lost={(1, 13)}))


def test_an_answer_that_comes_a_round_late_is_left_out(apps, nodes, book):
    post = Postmaster(FaultyGrid(apps, {11: lambda answer, asked: []}), QUICK)
    play(post, book, post.nodes())
    (name,) = post._open
    post.grid.faults.clear()
    true = client_app(lambda _: Holder(*nodes[11], C, lambda number: range(7)))
    late = Message(true(_turn_for(post, book, 11), None).content, reply_to=_turn_for(post, book, 11))
    post.grid._waiting[name] = [late]
    report = play(post, book, post.nodes())
    assert report.strays == 1
    assert same_bits(book, numpy_totals(nodes, 2, lost={(1, 11)}))


def _turn_for(post, book, node):
    from exhume.flower.rounds import _turn

    return Message(_turn(book, node, 1, "train"), node, "train")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_round_in_which_everybody_failed_is_an_error(fault, apps, book):
    make, _ = FAULTS[fault]
    before = digest(book.server.ledger)
    grid = FaultyGrid(apps, dict.fromkeys(apps, make))
    with pytest.raises(RoundFailedError, match="none of 4 nodes"):
        run(grid, Setup(book, rounds=2, nodes=4, clock=QUICK))
    assert digest(book.server.ledger) == before and book.rounds == 0


def test_too_few_nodes_is_an_error(apps, book):
    with pytest.raises(RoundFailedError, match="5 nodes must be there; got 4"):
        run(LocalGrid(apps), Setup(book, rounds=1, nodes=5, clock=QUICK))


def test_a_head_that_nobody_hears_is_an_error(apps, book):
    def deaf(answer, asked):
        return [] if asked.metadata.message_type == "evaluate" else [answer]

    with pytest.raises(RoundFailedError, match="none of 4 nodes heard the head"):
        run(FaultyGrid(apps, dict.fromkeys(apps, deaf)), Setup(book, rounds=1, nodes=4, clock=QUICK))
    assert book.rounds == 1  # the round itself counts


def test_what_flower_cannot_read_does_not_take_others_with_it(apps, nodes, book):
    class Broken(LocalGrid):
        def pull_messages(self, message_ids):
            found = list(super().pull_messages(message_ids))
            if any(m.metadata.src_node_id == 12 for m in found):
                raise ValueError("Unexpected set of `children`")
            return found

    post = Postmaster(Broken(apps), QUICK)
    report = play(post, book, post.nodes())
    assert {a.node: a.status for a in report.answers}[12] == "malformed"
    assert same_bits(book, numpy_totals(nodes, 1, lost={(1, 12)}))


def test_a_message_that_flower_does_not_take_is_told(apps, nodes, book):
    class Full(LocalGrid):
        def push_messages(self, messages):
            return [None if m.metadata.dst_node_id == 13 else self._push(m) for m in messages]

    post = Postmaster(Full(apps), QUICK)
    report = play(post, book, post.nodes())
    assert {a.node: a.status for a in report.answers}[13] == "not sent"
    assert same_bits(book, numpy_totals(nodes, 1, lost={(1, 13)}))


def test_where_deletions_are_asked_for_an_addition_is_malformed(apps, nodes, book):
    post = Postmaster(LocalGrid(apps), QUICK)
    play(post, book, post.nodes())
    eager = client_app(lambda _: Eager(Holder(*nodes[11], C, lambda number: range(8))))
    post = Postmaster(LocalGrid({**apps, 11: eager}), QUICK)
    book._rounds = 2  # the third round takes two rows of each
    report = play(post, book, post.nodes(), kind=UNLEARN)
    assert {a.node: a.status for a in report.answers} == {11: "malformed", 12: "taken", 13: "taken", 14: "taken"}
    assert "deletions" in report.answers[0].reason


@pytest.mark.parametrize("rules", [[], [PositiveSemidefinite()]], ids=["no rule", "positive-semidefinite"])
def test_an_addition_can_be_dressed_up_as_a_deletion_unless_a_rule_looks(rules, apps, nodes):
    # To delete minus something is to add it. The kind of a round cannot tell; the rule on signs can.
    class Sly(Holder):
        def contribute(self, turn):
            if not turn.unlearn:
                return super().contribute(turn)
            some = Summary.of(np.eye(D)[:1], [0], C)
            return Update.deleting(Summary.zeros(D, C) - some)

    book = MemoryBook(Server(Ledger.zeros(D, C, gamma=1e-2), admission=rules))
    sly = client_app(lambda _: Sly(*nodes[11], C, lambda number: range(8)), dense=True)
    post = Postmaster(LocalGrid({**apps, 11: sly}), QUICK)
    play(post, book, post.nodes())
    before = book.server.ledger.summary.gram[0, 0]
    report = play(post, book, [11], kind=UNLEARN)
    assert report.answers[0].status == ("refused" if rules else "taken")
    assert book.server.ledger.summary.gram[0, 0] - before == pytest.approx(0.0 if rules else 1.0, abs=1e-12)


class Eager:
    def __init__(self, holder):
        self.holder = holder

    def contribute(self, turn):
        from dataclasses import replace

        return self.holder.contribute(replace(turn, unlearn=False, taken=()))

    def hear(self, news):
        return {}


def test_an_unlearning_round_only_deletes(apps, nodes, book):
    run(LocalGrid(apps), Setup(book, rounds=3, nodes=4, unlearn=frozenset({3})))
    # Two rows of each node are gone, and what the third round would have added is not there.
    rows = [(f[2:8], y[2:8]) for f, y in nodes.values()]
    gram = sum(f.T @ f for f, _ in rows)
    assert np.allclose(book.server.ledger.summary.gram, gram, rtol=0, atol=1e-12)
    run(LocalGrid(apps), Setup(book, rounds=4, nodes=4))
    gram = sum(f[2:16].T @ f[2:16] for f, _ in nodes.values())
    assert np.allclose(book.server.ledger.summary.gram, gram, rtol=0, atol=1e-12)


def test_a_refused_message_is_told_to_its_node_and_to_no_other(apps, nodes):
    class Quiet(AdmissionRule):
        name = "quiet"

        def refuse(self, update, client):
            return None if update.magnitude < 100.0 else "too loud"

    book = MemoryBook(Server(Ledger.zeros(D, C, 1e-2), admission=[Quiet()]))
    heard = {}

    class Listener(Holder):
        def contribute(self, turn):
            made = super().contribute(turn)
            return made if self is not loud else made + made + made + made + made

        def hear(self, news):
            heard[id(self)] = news
            return super().hear(news)

    made = {n: Listener(*rows, C, lambda number: range(4 * number)) for n, rows in nodes.items()}
    loud = made[12]
    post = Postmaster(LocalGrid({n: client_app(lambda _, p=p: p) for n, p in made.items()}), QUICK)
    report = play(post, book, post.nodes())
    broadcast(post, book, post.nodes(), report.receipts)
    assert {a.node: a.status for a in report.answers} == {11: "taken", 12: "refused", 13: "taken", 14: "taken"}
    assert heard[id(loud)].refused == "too loud" and not heard[id(loud)].taken
    assert all(news.taken and news.refused is None for key, news in heard.items() if key != id(loud))


def test_nodes_hear_the_head_bit_for_bit(apps, nodes, book):
    heads = []

    class Ear(Holder):
        def hear(self, news):
            heads.append(news.head)
            return {}

    made = {n: client_app(lambda _, rows=rows: Ear(*rows, C, lambda number: range(9))) for n, rows in nodes.items()}
    run(LocalGrid(made), Setup(book, rounds=1, nodes=4))
    assert len(heads) == 4 and all(head == book.server.head() for head in heads)


def test_bad_settings_are_named(book):
    with pytest.raises(InputError, match="rounds"):
        Setup(book, rounds=0)
    with pytest.raises(InputError, match="timeout"):
        Clock(timeout=0)
