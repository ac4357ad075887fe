from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import svdvals

from exhume import Heads, Ledger, Server, Summary, Update
from exhume.attack.coordinates import schur
from exhume.attack.estimate import direct
from exhume.attack.probes import own_data, random
from exhume.attack.session import Attack
from exhume.attack.state import diagnose_rank
from exhume.attack.theory.bounds import ProbeRun, additions_bound
from exhume.defence import Chain, IdentificationAccountant, PosteriorNoise
from exhume.defence.accountants._basis import Basis
from exhume.defence.accountants._runs import QuietRun, SeenHead
from exhume.defence.release import EveryKChanges
from exhume.errors import AttackError, InputError, NotIdentifiedError
from tests.attack.worlds import PROBES, Tap, World

D, C = 24, 4


def world(**options):
    accountant = IdentificationAccountant(**({"margin": 4, "action": "report"} | options))
    return World(D, C, accountant=accountant), accountant


def run(w, name, **options):
    return Attack(w.target).run(w.probe(name, **options))


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("responses", [1, 3, 5, 20])
def test_rank_and_condition_are_those_of_the_attackers_own_stack(name, responses):
    w, accountant = world()
    if name == "designed":
        responses = 6
    transcript = run(w, name, **({} if name == "designed" else {"responses": responses}))
    found = accountant.exposure("mallory")
    X = np.hstack([transcript.X, transcript.final.weights - transcript.baseline.weights])
    assert found.rank == np.linalg.matrix_rank(X, rtol=1e-10)
    assert found.value == found.rank / D
    values = svdvals(X)[: found.rank]
    assert found.condition == pytest.approx(values[0] / values[-1], rel=1e-6)
    assert w.server.exposure("alice").current == 0


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_growing_basis_has_the_rank_and_singular_values_of_the_stack(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 12))
    basis, blocks = Basis(d), []
    for _ in range(int(rng.integers(1, 8))):
        rank = int(rng.integers(0, 4))
        block = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, 3)) * 10.0 ** rng.integers(-3, 4)
        if blocks and rng.random() < 0.3:
            block = blocks[0] @ rng.standard_normal((3, 3))
        blocks.append(block)
        basis.add(basis.extension(block))
        stack = np.hstack(blocks)
        assert basis.rank == np.linalg.matrix_rank(stack, rtol=1e-10)
        np.testing.assert_allclose(basis.singular_values(), svdvals(stack)[: basis.rank], rtol=1e-6)
        np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(basis.rank), atol=1e-12)
        back = Basis.restored("x", basis.arrays("x"))
        np.testing.assert_array_equal(back.singular_values(), basis.singular_values())


def test_extreme_singular_values_follow_a_large_stack_without_a_decomposition(monkeypatch):
    rng = np.random.default_rng(0)
    basis, blocks = Basis(90), []

    def none(*_, **__):
        raise AssertionError("a full decomposition")

    for turn in range(25):
        block = rng.standard_normal((90, 5))
        if turn % 4 == 3:  # in part what was seen before
            block[:, 1:4] = blocks[0][:, :3] * 1e3
        blocks.append(block)
        basis.add(basis.extension(block))
        if basis.rank >= 64:
            with monkeypatch.context() as patch:
                patch.setattr("exhume.defence.accountants._basis.svdvals", none)
                top, low = basis.extremes()
            values = svdvals(np.hstack(blocks))[: basis.rank]
            assert (top, low) == pytest.approx((values[0], values[-1]), rel=1e-9)
            with monkeypatch.context() as patch:  # and are kept
                patch.setattr("exhume.defence.accountants._basis.extremes", none)
                assert basis.extremes() == (top, low)
    assert basis.rank == 90


def test_the_coordinates_that_an_earlier_version_saved_are_read():
    rng = np.random.default_rng(0)
    basis = Basis(9)
    columns = rng.standard_normal((9, 7))
    basis.add(basis.extension(columns))
    saved = {"x.vectors": basis.vectors, "x.coordinates": basis.vectors.T @ np.hstack([columns, columns[:, :3]])}
    twice = svdvals(np.hstack([columns, columns[:, :3]]))[:7]
    np.testing.assert_allclose(Basis.restored("x", saved).singular_values(), twice, rtol=1e-10)


def test_a_mark_takes_columns_out_that_were_rotated_in():
    rng = np.random.default_rng(0)
    basis = Basis(8)
    columns = rng.standard_normal((8, 5))
    basis.add(basis.extension(columns))
    before, undo = basis.singular_values(), basis.mark()
    basis.add(basis.extension(10 * columns[:, :2]))
    assert basis.singular_values()[0] > 2 * before[0]
    undo()
    np.testing.assert_array_equal(basis.singular_values(), before)


@pytest.mark.parametrize("action", ["withhold", "coarsen"])
@pytest.mark.parametrize("name", PROBES)
def test_no_probe_reaches_the_margin_so_no_state_is_identified(name, action):
    w, accountant = world(action=action)
    attack = Attack(w.target)
    if action == "withhold":
        with pytest.raises(AttackError, match="withheld"):
            attack.run(w.probe(name))
    else:
        transcript = attack.run(w.probe(name))
        rank = diagnose_rank(transcript)[0].rank_X
        assert rank <= D - 4
        with pytest.raises(NotIdentifiedError, match="rank deficient"):
            direct(transcript)
    assert 0 < accountant.exposure("mallory").rank <= D - 4


def test_every_margin_is_kept_and_reached_as_closely_as_blocks_allow():
    for margin in (1, 5, 12, 23):
        w, accountant = world(margin=margin, action="withhold")
        with pytest.raises(AttackError):
            run(w, "random")
        assert D - margin - C < accountant.exposure("mallory").rank <= D - margin


def test_a_change_of_somebody_else_starts_a_new_state_unless_conservative():
    for conservative, expected in ((False, [8, 8, 8]), (True, [8, 16, None])):
        w, accountant = world(action="withhold", conservative=conservative)
        ranks = []
        for seed in range(3):
            probe = random(D, C, rng=np.random.default_rng(seed), responses=2)
            try:
                Attack(w.target).run(probe)
                ranks.append(accountant.exposure("mallory").rank)
            except AttackError:  # the margin of 4 leaves no room for 24 directions
                ranks.append(None)
            w.honest.add(w.own_features[seed : seed + 1], w.own_labels[seed : seed + 1])
        assert ranks == expected


def brute_force(history, names, size, client):
    """Rank of the best stack of the present state for so many colluders with the client, from the definition."""
    best = 0
    others = [n for n in names if n != client]
    for helpers in combinations(others, min(size - 1, len(others))):
        colluders = {client, *helpers}
        heads = []
        for author, head in reversed(history):
            heads.append(head)
            if author not in colluders:
                break  # this head is the baseline: it shows the state after the last unknown change
        stack = [h - heads[-1] for h in heads[:-1] if h is not None and heads[-1] is not None]
        best = max(best, np.linalg.matrix_rank(np.hstack(stack), rtol=1e-10) if stack else 0)
    return best


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=14), st.integers(0, 1000))
@settings(max_examples=40)
def test_for_any_history_all_colluders_have_the_rank_that_the_definition_says(authors, seed):
    rng = np.random.default_rng(seed)
    accountant = IdentificationAccountant(1, action="report", colluders=3)
    start = Summary.of(rng.normal(size=(30, D)), rng.integers(0, 2, 30), 2)
    server = Server(Ledger(start, 0.5), accountant=accountant)
    history = [(None, server.head().weights)]
    for author in authors:
        block = Summary.of(rng.normal(size=(3, D)), rng.integers(0, 2, 3), 2)
        history.append((author, server.submit(Update.adding(block), author).head.weights))
    for size in (1, 2, 3):
        for client in "abcd":
            assert accountant.exposure(client, colluders=size).current == brute_force(history, "abcd", size, client)


def test_two_who_alternate_are_nothing_alone_and_a_state_together():
    w, accountant = world(colluders=2)
    rng = np.random.default_rng(5)
    for i in range(14):
        block = Summary.of(rng.normal(size=(4, D)), rng.integers(0, C, 4), C)
        w.server.submit(Update.adding(block), "mallory" if i % 2 else "sybil")
    assert accountant.exposure("mallory").rank <= C
    assert accountant.exposure("mallory", colluders=2).rank == D
    assert "with up to 1 more" in accountant.exposure("mallory", colluders=2).meaning


def test_a_baseline_that_was_never_released_gives_no_equation():
    accountant = IdentificationAccountant(1, action="report")
    w = World(D, C, accountant=accountant)
    w.server._release = EveryKChanges(2)
    w.honest.delete(w.features[:1], w.labels[:1])  # the rule's first head
    w.honest.delete(w.features[1:2], w.labels[1:2])
    rng = np.random.default_rng(0)
    heads = [
        w.server.submit(Update.adding(Summary.of(rng.normal(size=(3, D)), rng.integers(0, C, 3), C)), "mallory").head
        for _ in range(5)
    ]
    assert [h is not None for h in heads] == [True, False, True, False, True]
    # The first head hides alice's deletion: it is the baseline, and two responses follow.
    assert accountant.exposure("mallory").responses == 2


def test_who_made_all_the_data_alone_is_not_held_back():
    accountant = IdentificationAccountant(4)
    server = Server(Ledger.zeros(D, C, 0.5), accountant=accountant)
    rng = np.random.default_rng(0)

    def add(name):
        block = Summary.of(rng.normal(size=(9, D)), rng.integers(0, C, 9), C)
        return server.submit(Update.adding(block), name).head is not None

    assert all(add("alice") for _ in range(10))
    assert add("bob")
    assert not all(add("bob") for _ in range(10))


def test_messages_without_effect_change_nothing():
    w, accountant = world()
    run(w, "random", responses=2)
    before = accountant.exposure("mallory")
    w.server.submit(Update.adding(Summary.zeros(D, C)), "sybil")
    assert accountant.exposure("mallory").current == before.current > 0


class Probed:
    """One probe run with all that the server knew of it; the head after cancellation is its last response."""

    def __init__(self, name, precision, loud=1.0):
        accountant = IdentificationAccountant(4, action="report")
        self.w = World(D, C, precision=precision, accountant=accountant)
        self.w.own_features *= loud
        self.A, self.baseline, self.first = self.w.A, self.w.server.ledger.head(), self.w.server.ledger.summary
        self.tap = Tap(self.w)
        heard = Attack(self.tap).run(self.w.probe(name))
        last = heard.final.weights - heard.baseline.weights
        stacks = {"X": np.hstack([heard.X, last]), "Z": np.hstack([heard.Z, np.zeros((D, C))])}
        self.transcript = replace(heard, responses=heard.responses + 1, final=None, **stacks)
        self.found = accountant.exposure("mallory")
        self.size = np.linalg.norm(self.A)

    @property
    def error(self):
        """The relative error that identification reaches."""
        return np.linalg.norm(direct(self.transcript).A - self.A) / self.size

    @property
    def stack(self):
        """The stack of exact heads."""
        return np.hstack([head - self.baseline for head in self.tap.heads])

    def sides(self):
        """One |A_j| |W_j| + |A| |W_0| per head: at least the size of every term of its equation."""
        sizes = [np.linalg.norm(total.gram + self.w.server.ledger.gamma * np.eye(D)) for total in self.tap.ledgers]
        start = self.size * np.linalg.norm(self.baseline)
        return [start + size * np.linalg.norm(head) for size, head in zip(sizes, self.tap.heads, strict=True)]

    def arithmetic(self):
        """First-order bound on what float64 adds on the attacker's side, which the accountant does not count.

        Per head: one rounding a step of the ledger's and the attacker's totals, gram and moment; a product ``P_j W_j``
        of d terms; two subtractions: (4 steps + d + 2) u times the `sides`, since ``|P_j| <= |A_j|`` for additions and
        ``|G_j| <= |A_j| |W_j|``. Then a backward-stable solve: d eps times the stack's condition.
        """
        eps = np.finfo(float).eps
        steps = len(self.tap.updates)
        values = svdvals(self.transcript.X)
        made = (4 * steps + D + 2) * 0.5 * eps * np.linalg.norm(self.sides()) / (values[-1] * self.size)
        return made + D * eps * values[0] / values[-1]


@pytest.mark.parametrize("name", [*PROBES, "loud own_data"])
@pytest.mark.parametrize("precision", ["float64", "float32", "20bits"])
def test_the_predicted_error_bounds_what_identification_reaches(name, precision):
    probed = Probed(name.split()[-1], precision, 100.0 if "loud" in name else 1.0)
    found = probed.found
    assert probed.error <= found.state_error + probed.arithmetic()
    assert found.deletion_error(0.01) == pytest.approx(200 * found.state_error)
    assert "identify the present one" in found.meaning


@pytest.mark.parametrize(
    ("name", "precision"),
    [("loud own_data", "float32"), *((name, bits) for name in PROBES for bits in ("float32", "float16"))],
)
def test_the_predicted_error_is_the_papers_bound_for_rounded_additions(name, precision):
    """The oracle computes every block from hidden values; only the stack's smallest singular value differs (Weyl)."""
    probed = Probed(name.split()[-1], precision, 100.0 if "loud" in name else 1.0)
    grams = [total.gram - probed.first.gram for total in probed.tap.ledgers]
    raw = np.eye(D)  # an estimate is not looked at for the right side of the bound
    run = ProbeRun(probed.A, probed.baseline, probed.tap.heads, grams, probed.transcript, raw, raw)
    oracle = additions_bound(run).right / probed.size
    least, blur = svdvals(probed.stack)[-1], np.linalg.norm(run.E)
    # Both sides are float64. A solve by Cholesky leaves a residual of up to (3 d + 1) u trace(A_j) |W_j|, the trace
    # being at most sqrt(d) |A_j|; a product of d terms and the sums around it err by (d + 3) u |A_j| |W_j|, each time.
    factor = ((3 * D + 1) * D**0.5 + 2 * (D + 3)) * 2.0**-53
    room = factor * np.linalg.norm(probed.sides()) / (probed.size * (least - blur))
    assert room < 1e-3 * oracle
    assert oracle - room <= probed.found.state_error <= oracle * (least + blur) / (least - blur) + room


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_error_in_the_stack_alone_does_not_bound_what_large_own_data_reach(precision):
    """Rounded heads also enter Z, multiplied by the attacker's own gram: |E| / sigma_min(X) forgets them."""
    probed = Probed("own-data", precision, 100.0)
    floor = np.finfo(float).eps * np.hstack([np.linalg.norm(head) for head in probed.tap.heads])
    blocks = np.hsplit(probed.transcript.X - probed.stack, probed.transcript.responses)
    errors = np.maximum([np.linalg.norm(block) for block in blocks], floor)
    alone = np.linalg.norm(errors) / svdvals(probed.stack)[-1]
    assert alone < probed.error <= probed.found.state_error + probed.arithmetic()


def test_heads_that_overflow_leave_no_bound():
    w, accountant = world()
    w.server._release = Heads("float16")
    with pytest.raises(AttackError, match="not finite"):
        run(w, "random", scale=1e9)
    assert accountant.exposure("mallory").state_error == np.inf


def test_noise_is_in_the_predicted_error():
    w, accountant = world()
    w.server._release = Chain([PosteriorNoise(0.2, "00" * 16)])
    run(w, "own-data")
    found = accountant.exposure("mallory")
    # The noise is larger than the weakest direction of the stack: nothing bounds what solving it gives.
    assert found.rank == D and found.state_error == np.inf and "noise" in found.meaning


@pytest.mark.parametrize("options", [{}, {"colluders": 2}, {"conservative": True}])
def test_a_restored_accountant_goes_on_where_it_was(options):
    w, accountant = world(**options)
    attack = Attack(w.target)
    attack.run(w.probe("random", responses=3))
    again = IdentificationAccountant(**{"margin": 4, "action": "report"} | options)
    again.load(accountant.save())
    assert again.exposure("mallory") == accountant.exposure("mallory")
    twin = Server(w.server.ledger.copy(), accountant=again)
    twin._head, twin._counts = w.server._head, w.server.counts
    for server in (w.server, twin):
        Attack(server.as_target("mallory")).run(w.probe("own-data", responses=3))
    assert again.exposure("mallory").rank == accountant.exposure("mallory").rank == D
    assert again.exposure("mallory").condition == pytest.approx(accountant.exposure("mallory").condition, rel=1e-6)


def test_a_state_of_another_configuration_is_refused_by_name():
    saved = IdentificationAccountant(4).save()
    with pytest.raises(InputError, match="margin must be 5; got 4"):
        IdentificationAccountant(5).load(saved)
    with pytest.raises(InputError, match="colluders must be 2; got 1"):
        IdentificationAccountant(4, colluders=2).load(saved)


def test_bad_options_are_refused_and_exposure_needs_an_accountant():
    for options in ({"margin": 0}, {"margin": 1, "action": "shout"}, {"margin": 1, "colluders": 0}):
        with pytest.raises(InputError):
            IdentificationAccountant(**options)
    with pytest.raises(InputError, match="below d = 24"):
        World(D, C, accountant=IdentificationAccountant(D))
    with pytest.raises(InputError, match=r"exhume\.hardened"):
        World(D, C).server.exposure("mallory")
    with pytest.raises(InputError, match="from 1 to the accountant's 1"):
        IdentificationAccountant(1).exposure("mallory", colluders=2)


def sparse(**options):
    """A server whose ledger has three dead coordinates, and a client whose own rows are zero in two more."""
    accountant = IdentificationAccountant(**({"margin": 1, "action": "report"} | options))
    server = Server(Ledger.zeros(12, 3, 0.1), accountant=accountant)
    rng = np.random.default_rng(3)
    features, labels = rng.random((80, 12)), rng.integers(0, 3, 80)
    features[:, :3] = 0.0
    features[:60, 3:5] = 0.0
    server.submit(Update.adding(Summary.of(features[40:], labels[40:], 3)), "alice")
    server.submit(Update.adding(Summary.of(features[:40], labels[:40], 3)), "mallory")
    return server, accountant, features[:40], labels[:40]


def add_once_more(server, features, labels, responses=6):
    """Let the client add its rows once more, batch by batch; returns the transcript, as far as heads came."""
    probe = own_data(features, labels, 3, responses=responses, rng=np.random.default_rng(0))
    return Attack(server.as_target("mallory")).run(probe)


def test_live_coordinates_are_what_identification_needs():
    server, accountant, features, labels = sparse()
    state = direct(add_once_more(server, features, labels))
    assert len(state.live) == 7
    found = accountant.exposure("mallory")
    assert (found.rank, found.needed, found.value) == (7, 7, 1.0)
    assert "all 7 dimensions of one state in which its own rows have weight (of 9 with any)" in found.meaning
    assert "missing" not in found.meaning
    truth = server.ledger.summary.gram + 0.1 * np.eye(12)
    at = np.ix_(state.live, state.live)
    error = np.linalg.norm(state.A[at] - schur(truth, state.live)) / np.linalg.norm(truth)
    assert error <= found.state_error < 1e-6


def test_whoever_never_sent_a_row_needs_every_coordinate_with_weight():
    server, accountant, _, _ = sparse()
    assert accountant.exposure("eve").needed == 9
    Attack(server.as_target("eve")).run(random(12, 3, rng=np.random.default_rng(1), responses=5))
    assert accountant.exposure("eve").needed == 12  # a made-up matrix has given all of them some
    assert accountant.exposure("eve").value == 1.0


def test_heads_are_withheld_before_the_live_coordinates_are_full():
    server, accountant, features, labels = sparse(action="withhold", margin=2)
    with pytest.raises(AttackError, match="withheld"):
        add_once_more(server, features, labels)
    assert accountant.exposure("mallory").rank <= 5


def test_what_carried_weight_is_saved():
    server, accountant, features, labels = sparse()
    add_once_more(server, features, labels, responses=2)
    twin = IdentificationAccountant(margin=1, action="report")
    twin.restore(accountant.remembered())
    for client in ("mallory", "alice", "eve"):
        assert twin.exposure(client) == accountant.exposure(client)
    old = accountant.remembered()
    values = {k: v for k, v in old.values.items() if k not in ("reached", "with_rows")}
    values["peaks"] = {client: [rank for rank, _ in peaks] for client, peaks in old.values["peaks"].items()}
    values["highest"] = [rank for rank, _ in old.values["highest"]]
    earlier = IdentificationAccountant(margin=1, action="report")
    earlier.restore(replace(old, values=values, arrays={k: v for k, v in old.arrays.items() if k != "reach"}))
    assert earlier.exposure("mallory").rank == accountant.exposure("mallory").rank
    assert earlier.exposure("mallory").needed == 12


def test_no_stack_identifies_a_state_more_exactly_than_float64_resolves_it():
    """Heads that miss their equations by nothing at all still went through float64: the bound must not say zero."""
    rng = np.random.default_rng(0)
    d, size = 3, 7.0

    def seen(signal):
        return SeenHead(signal, np.zeros_like(signal), np.zeros_like(signal), size)

    start, answer = rng.standard_normal((d, d)), rng.standard_normal((d, d))
    run = QuietRun(("x",), Basis(d), seen(start))
    run = run.heard(seen(answer), run.extension(answer))
    least = svdvals(answer - start)[-1]
    assert run.state_error(np.arange(d)) == pytest.approx(
        np.finfo(float).eps * np.linalg.norm(answer) / least, rel=1e-9, abs=0.0
    )


def test_a_client_is_not_alone_beside_data_that_was_there_before_the_accountant():
    """Nobody else has sent anything, but the ledger held rows at the start: they are what must stay hidden."""
    rng = np.random.default_rng(0)
    others = Summary.of(rng.standard_normal((60, D)), rng.integers(0, C, 60), C)
    for held in (others, Summary.zeros(D, C)):
        accountant = IdentificationAccountant(margin=4, action="withhold")
        server = Server(Ledger(held, 0.5), accountant=accountant)
        server.head()
        for _ in range(2 * D // C):
            rows = rng.standard_normal((C, D)), np.arange(C)
            server.submit(Update.adding(Summary.of(*rows, C)), "mallory")
        rank = accountant.exposure("mallory").rank
        assert rank <= D - 4 if held is others else rank == D
