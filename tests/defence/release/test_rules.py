import numpy as np
import pytest

from exhume import Heads, Ledger, Server, Summary, Update
from exhume.attack.probes import designed
from exhume.attack.session import Attack
from exhume.defence import release
from exhume.defence.release import (
    Chain,
    Columns,
    ContinualNoise,
    DeletionMask,
    EveryKChanges,
    IsotropicNoise,
    LowRank,
    MinClients,
    MinimumInterval,
    PosteriorNoise,
    PrivacyBudget,
    ResponseBudget,
    Rule,
    TopEigenspace,
)
from exhume.errors import InputError

D, C = 8, 3
KEY = "5a" * 16
RULES = {
    "columns": Columns([0, 2]),
    "continual-noise": ContinualNoise(0.1, key=KEY),
    "deletion-mask": DeletionMask(0.1, key=KEY),
    "every-k-changes": EveryKChanges(3),
    "heads": Heads("float32"),
    "isotropic-noise": IsotropicNoise(0.1, KEY),
    "low-rank": LowRank(2),
    "min-clients": MinClients(2),
    "posterior-noise": PosteriorNoise(0.2, KEY),
    "privacy-budget": PrivacyBudget(0.2, 2.0),
    "response-budget": ResponseBudget(4),
    "top-eigenspace": TopEigenspace(5),
    "minimum-interval": MinimumInterval(60.0),
}


def batch(seed, n=12):
    rng = np.random.default_rng(seed)
    return Summary.of(rng.normal(size=(n, D)), rng.integers(0, C, n), C)


def server(rule):
    return Server(Ledger(batch(99, 40), 0.5), release=rule)


def heads_of(s, clients):
    """Submit one addition per name; say which brought a head."""
    s.head()
    return [s.submit(Update.adding(batch(i, 2)), name).head is not None for i, name in enumerate(clients)]


def test_the_registry_holds_every_rule_and_suggests_the_nearest():
    assert sorted(release.REGISTRY) == sorted(RULES)
    with pytest.raises(InputError, match="did you mean 'posterior-noise'"):
        release.REGISTRY.find("posterior-nois")
    assert release.REGISTRY.find("every_k_changes")(changes=4).changes == 4


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_stands_alone_and_in_a_chain(name):
    made = Chain([RULES[name], *([] if name == "heads" else [Heads("float64")])])
    head = server(made).head()
    assert head.weights.shape == (D, C)
    assert type(RULES[name]).__name__ in repr(made) and KEY not in repr(made)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_every_k_changes_bring_one_head_that_holds_all_of_them(k):
    s = server(EveryKChanges(k))
    assert heads_of(s, ["a"] * 20) == [(i + 1) % k == 0 for i in range(20)]
    np.testing.assert_array_equal(s.head().weights, s.ledger.head())  # 20 is a multiple of each k


def test_min_clients_counts_distinct_clients_since_the_last_head():
    assert heads_of(server(MinClients(3)), "aabbaacab") == [0, 0, 0, 0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("rule", [EveryKChanges(2), MinClients(2)])
def test_empty_messages_open_no_gate(rule):
    s = server(rule)
    s.head()
    s.submit(Update.adding(batch(1)), "a")
    assert all(s.submit(Update.adding(Summary.zeros(D, C)), name).head is None for name in "bcd")


def test_a_window_brings_one_head():
    now = [0.0]
    s = server(MinimumInterval(10.0, clock=lambda: now[0]))
    s.head()
    out = []
    for t in (1, 5, 10, 11, 19, 21):
        now[0] = float(t)
        out.append(s.submit(Update.adding(batch(t, 2)), "a").head is not None)
    assert out == [False, False, True, False, False, True]


def test_a_response_budget_ends_and_the_change_goes_out_with_somebody_elses():
    rule = ResponseBudget(2)
    s = server(rule)
    assert heads_of(s, "aaaab") == [True, True, False, False, True]
    np.testing.assert_array_equal(s.head().weights, s.ledger.head())
    assert (rule.left("a"), rule.left("b")) == (0, 1)


def test_shapes_against_their_definitions():
    exact = server(Heads()).head().weights
    kept = server(Columns([2, 0])).head().weights
    np.testing.assert_array_equal(kept[:, [0, 2]], exact[:, [0, 2]])
    assert not kept[:, 1].any()
    low = server(LowRank(2)).head().weights
    assert np.linalg.matrix_rank(low) == 2
    assert np.linalg.norm(low - exact, 2) == pytest.approx(np.linalg.svd(exact, compute_uv=False)[2])
    top = server(TopEigenspace(5)).head().weights
    vectors = np.linalg.eigh(batch(99, 40).gram)[1]
    np.testing.assert_allclose(top, vectors[:, -5:] @ vectors[:, -5:].T @ exact, atol=1e-12)


def test_no_moment_probe_leaves_the_top_eigenspace():
    target = server(TopEigenspace(5)).as_target("m")
    X = Attack(target).run(designed(D, C, scale=10.0)).X
    assert np.linalg.matrix_rank(X, rtol=1e-10) == 5


@pytest.mark.parametrize(
    ("rules", "match"),
    [
        ([], "at least one"),
        ([Heads(), EveryKChanges(2)], "in the order gate, mask, shape, noise, budget, precision"),
        ([PosteriorNoise(0.1), LowRank(1)], "in the order"),
        ([PosteriorNoise(0.1), IsotropicNoise(0.1)], "at most one noise"),
        ([PosteriorNoise(0.1), PrivacyBudget(0.2, 1.0)], "the same in the noise and in its budget"),
    ],
)
def test_chains_that_make_no_sense_are_refused(rules, match):
    with pytest.raises(InputError, match=match):
        Chain(rules)


def test_a_gate_does_not_take_a_head_that_a_later_rule_withheld_for_a_release():
    s = server(Chain([EveryKChanges(2), ResponseBudget(1)]))
    # The fourth change opens the first gate and is held by the budget; b's change then goes out at once.
    assert heads_of(s, "aaaab") == [False, True, False, False, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: EveryKChanges(3),
        lambda: MinClients(2),
        lambda: ResponseBudget(2),
        lambda: MinimumInterval(5.0, clock=lambda: 1.0),
        lambda: Chain([EveryKChanges(3), PosteriorNoise(0.2, KEY), PrivacyBudget(0.2, 1.0), Heads("float32")]),
    ],
)
def test_a_restored_rule_goes_on_where_it_was(make):
    through, broken = server(make()), server(make())
    first, second = "aab", "abcab"
    assert heads_of(through, first) == heads_of(broken, first)
    again = make()
    again.load(broken._release.save())
    resumed = Server(broken.ledger, release=again)
    resumed._head = broken.head()
    assert heads_of(through, second) == heads_of(resumed, second)


def test_a_state_of_another_rule_or_configuration_is_refused_by_name():
    saved = EveryKChanges(3).save()
    with pytest.raises(InputError, match="that of 'min-clients'; got that of 'every-k-changes'"):
        MinClients(2).load(saved)
    with pytest.raises(InputError, match="changes must be 4; got 3"):
        EveryKChanges(4).load(saved)
    with pytest.raises(InputError, match="rules"):
        Chain([EveryKChanges(2)]).load(Chain([EveryKChanges(3)]).save())
    for junk in (b"", b"junk", saved[:20], Heads().__repr__().encode() * 9):
        with pytest.raises(InputError, match="saved state of a defence"):
            EveryKChanges(3).load(junk)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EveryKChanges(0),
        lambda: MinClients(1.5),
        lambda: MinimumInterval(0.0),
        lambda: Columns([]),
        lambda: Columns([1, 1]),
        lambda: LowRank(0),
        lambda: PosteriorNoise(-1.0),
        lambda: PosteriorNoise(1.0, "zz"),
        lambda: PosteriorNoise(1.0, b"short"),
        lambda: PrivacyBudget(0.1, 1.0, scope="never"),
        lambda: server(Columns([7])).head(),
        lambda: server(TopEigenspace(D)).head(),
    ],
)
def test_bad_options_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_rules_have_stages():
    assert all(RULES[name].stage in release.STAGES for name in RULES if isinstance(RULES[name], Rule))
