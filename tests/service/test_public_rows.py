"""Public rows in the configuration: checked at the start, in the noise's measure, and part of what a store is of."""

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'serve'")
pytest.importorskip("sqlalchemy", reason="the service needs the extra 'serve'")

import exhume as ex
from exhume.defence import Bounds
from exhume.defence.release import rules_of
from exhume.errors import InputError
from exhume.protocol.message import Batch, itemise
from exhume.service import load, template
from exhume.store import OperatorKey
from exhume.store import open as open_store

pytestmark = pytest.mark.extras

D, C = 6, 3


def rows(n, seed=0, length=3.0):
    rng = np.random.default_rng(seed)
    features = np.abs(rng.standard_normal((n, D)))
    return length * features / np.linalg.norm(features, axis=1)[:, None], rng.integers(0, C, n)


@pytest.fixture
def configured(tmp_path):
    """Return what writes the template with a file of public rows, and reads it."""

    def make(features, labels, **changes):
        np.savez(tmp_path / "public.npz", features=features, labels=labels, **split(features, labels))
        text = template(D, C, None).replace('# public = "public.npz"', 'public = "public.npz"')
        for old, new in changes.items():
            text = text.replace(old, new)
        (tmp_path / "service.toml").write_text(text)
        return load(tmp_path / "service.toml")

    return make


def split(features, labels):
    return {"test_features": features[:1], "test_labels": labels[:1]}


def measure_of(server):
    (rule,) = [one for one in rules_of(server.release) if one.name == "continual-noise"]
    return rule


def test_the_server_is_the_hardened_one_with_these_public_rows(configured, tmp_path):
    public = rows(50)
    config = configured(*public)
    ours = config.setup.server(config.setup.ledger(), lambda: 0.0)
    theirs = ex.hardened(
        ex.Ledger.zeros(D, C, 1e-3), bounds=Bounds(10.0, 100, 1000), rows=10000, public=public, founding=1
    )
    for server in (ours, theirs):  # the measure is fixed with the first head, which the founding submission brings
        assert server.submit(itemise(C, add=rows(2, 8)), "founder").accepted
    one, other = measure_of(ours), measure_of(theirs)
    for name in ("sigma", "spread", "grows", "founding", "horizon", "cap"):
        assert getattr(one, name) == getattr(other, name), name
    record = itemise(C, add=rows(1, 9))
    assert one.quote(record.add) == other.quote(record.add)  # the privacy figure that the measure gives


def test_a_store_refuses_other_public_rows_by_name(configured, tmp_path):
    key = OperatorKey(bytes(range(32)))
    config = configured(*rows(50))
    store = open_store(config.url, config.setup, key, watch=False)
    store.submit(itemise(C, add=rows(4, 2)), "a", "k")
    head = store.published.head
    store.close()
    again = open_store(config.url, configured(*rows(50)).setup, key, watch=False)  # the same rows: the same store
    assert np.array_equal(again.published.head.weights, head.weights)
    again.close()
    others = configured(*rows(50, seed=1)).setup
    with pytest.raises(InputError, match=r"defence\.public of the configuration"):
        open_store(config.url, others, key, watch=False)
    (tmp_path / "service.toml").write_text(template(D, C, None))
    with pytest.raises(InputError, match=r"defence\..*of the configuration"):
        open_store(config.url, load(tmp_path / "service.toml").setup, key, watch=False)


@pytest.mark.parametrize(
    ("public", "changes", "allowed"),
    [
        ((np.ones((4, D + 1)), np.zeros(4, int)), {}, "rows of 6 features"),
        ((np.ones((4, D)), np.full(4, C)), {}, "classes below 3"),
        (rows(4, length=11.0), {}, "at most 10 long"),
        ((np.full((4, D), np.nan), np.zeros(4, int)), {}, "a file of features and labels"),
        (rows(4), {"# undefended": "undefended"}, "left out where no rule"),
    ],
)
def test_bad_public_rows_are_named_at_the_start(configured, public, changes, allowed):
    with pytest.raises(InputError) as told:
        configured(*public, **changes).setup  # noqa: B018
    assert told.value.field == "defence.public" and allowed in told.value.allowed


def test_a_missing_file_is_named(configured, tmp_path):
    config = configured(*rows(4))
    (tmp_path / "public.npz").unlink()
    with pytest.raises(InputError, match=r"defence\.public"):
        config.setup  # noqa: B018


def test_a_service_asks_whose_rows_shape_the_noise(tmp_path):
    """Whoever comes first could else ruin everybody's heads."""
    text = template(D, C, None)
    assert "\nfounding = 1 " in text
    (tmp_path / "service.toml").write_text(text.replace("\nfounding = 1 ", "\n# founding = 1 "))
    config = load(tmp_path / "service.toml")
    with pytest.raises(InputError, match=r"public, founding must be rows that shape the noise"):
        open_store(config.url, config.setup, OperatorKey(bytes(range(32))), watch=False)


def test_the_first_message_behind_public_rows_is_cut_and_accounted(configured):
    config = configured(*rows(50))
    assert config.defence.founding == 1  # as the template has it: no head before the first message
    store = open_store(config.url, config.setup, OperatorKey(bytes(range(32))), watch=False)
    rule = measure_of(store._server)
    odd = np.array([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]]) * 4.0
    quoted = rule.quote(Batch(odd, np.array([0])))  # there is a measure before anybody sent anything
    for side in ("add", "delete"):
        store.submit(itemise(C, **{side: (odd, [0])}), "a", side)
    came, went = rule.accounts
    assert came.mu == pytest.approx(went.mu) and came.life == pytest.approx(quoted)
    store.close()
