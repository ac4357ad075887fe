"""Every rule, whoever brought it: a name, a line about it, a memory that survives a restart, no secret in its words."""

import inspect
import re

import numpy as np
import pytest

from exhume import Ledger, Summary, Update
from exhume.defence import Config, Defences, Entry, accountants, admission, build, release
from exhume.defence.config import resolved
from exhume.defence.memory import Saveable
from exhume.errors import InputError
from exhume.options import is_secret

D, C, GAMMA = 5, 3, 0.5
KINDS = {"admission": admission.REGISTRY, "release": release.REGISTRY, "accountant": accountants.REGISTRY}
ALL = [(kind, name) for kind, registry in KINDS.items() for name in registry]
SECRET = "0123456789abcdef0123456789abcdef"
SEED = 918273645
NAMES = ["alice", " ", "naïve ☃", "a\\x00b\"'", "𐀀", "order", "5", "x" * 256]
"""Names that are odd, and that a server takes all the same."""


def ledger():
    rng = np.random.default_rng(9)
    return Ledger(Summary.of(rng.normal(size=(60, D)) + 1.0, rng.integers(0, C, 60), C), GAMMA)


def entry(kind, name, **options):
    return Entry.of(name, **{**getattr(KINDS[kind][name], "example", {}), **options})


def config(kind, made):
    return Config(**{kind: made if kind == "accountant" else (made,)})


def made(kind, name, **options):
    return build(config(kind, entry(kind, name, **options)), ledger())


def rule_of(defences, kind):
    found = {"admission": defences.admission, "release": release.rules_of(defences.release)}
    return defences.accountant if kind == "accountant" else found[kind][0]


def batch(seed):
    rng = np.random.default_rng(seed)
    return Summary.of(rng.normal(size=(3, D)) + 1.0, rng.integers(0, C, 3), C)


def played(defences, client, start=0):
    """Let a client add and delete, past whatever rules there are: every rule hears of it."""
    server = defences.server(ledger())
    server._admission = ()
    for i in range(3):
        for update in (Update.adding(batch(start + i)), Update.deleting(batch(start + i))):
            server.submit(update, client)
            for rule in defences.admission:
                rule.record(update, client)
    return server


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_rule_says_what_it_is(kind, name):
    rule = KINDS[kind][name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and rule.name == name
    assert 10 <= len(rule.about) <= 80 and not rule.about.endswith(".") and "\n" not in rule.about
    assert rule.__doc__ and resolved(config(kind, entry(kind, name)))


@pytest.mark.parametrize(("kind", "name"), ALL)
@pytest.mark.parametrize("client", NAMES, ids=range(len(NAMES)))
def test_what_every_rule_remembers_comes_back(kind, name, client):
    before, after = made(kind, name), made(kind, name)
    played(before, client)
    after.load(before.save())
    one, two = (rule_of(defences, kind) for defences in (before, after))
    if isinstance(one, Saveable):
        assert one.remembered().values == two.remembered().values
        assert one.remembered().arrays.keys() == two.remembered().arrays.keys()
        for key, array in one.remembered().arrays.items():
            np.testing.assert_allclose(two.remembered().arrays[key], array, rtol=1e-12, atol=1e-12)
    update = Update.adding(batch(77))
    if kind == "admission":
        assert one.refuse(update, client) == two.refuse(update, client)


@pytest.mark.parametrize(("kind", "name"), ALL)
@pytest.mark.parametrize("client", [5, None, ("a", "b"), b"alice"], ids=repr)
def test_a_name_that_is_no_text_is_refused_at_the_latest_when_it_is_saved(kind, name, client):
    before, after = made(kind, name), made(kind, name)
    try:
        played(before, client)
        state = before.save()
    except InputError as error:
        assert "client" in error.field
        return
    after.load(state)  # the rule keeps no names
    one, two = (rule_of(defences, kind) for defences in (before, after))
    assert not isinstance(one, Saveable) or one.remembered().values == two.remembered().values


def secrets_of(kind, name):
    """Return the secrets that a rule can be given."""
    values = {"key": SECRET, "seed": SEED, "keys": {"alice": SECRET}}
    return {n: values[n] for n in inspect.signature(KINDS[kind][name]).parameters if n in values}


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_no_rule_shows_its_secrets(kind, name):
    secrets = secrets_of(kind, name)
    assert all(map(is_secret, secrets))
    defences = made(kind, name, **secrets)
    words = [repr(defences), repr(rule_of(defences, kind)), repr(defences.server(ledger()))]
    given = entry(kind, name, **secrets)
    words += [repr(given), str(given), repr(config(kind, given)), str(config(kind, given))]
    for wrong in (object(), [SECRET], {"alice": {"alice": SECRET}}):
        for secret in secrets:
            with pytest.raises(InputError) as caught:
                build(config(kind, entry(kind, name, **{**secrets, secret: wrong})), ledger())
            words.append(str(caught.value) + repr(caught.value))
    assert not any(SECRET in text or str(SEED) in text for text in words)


def test_a_state_that_disagrees_on_a_secret_does_not_tell_it():
    class Careless(Saveable):
        name = "careless"

        def __init__(self, key):
            self.key = key

        def configuration(self):
            return {"key": self.key}

    assert SECRET not in repr(Careless(SECRET))
    with pytest.raises(InputError, match="not shown") as caught:
        Careless("another").load(Careless(SECRET).save())
    assert SECRET not in str(caught.value) and "another" not in str(caught.value)


def test_a_rule_outside_a_chain_keeps_its_key():
    one, two = Defences((), release.PosteriorNoise(0.2), None), Defences((), release.PosteriorNoise(0.2), None)
    two.load(one.save())
    assert one.server(ledger()).head() == two.server(ledger()).head()
