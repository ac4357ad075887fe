"""The threat model in force, in words."""

from exhume.attack import probes, recover
from exhume.audit.explain import explain
from exhume.audit.settings import make_settings
from exhume.defence.config import Config, Entry, dump
from exhume.defence.default import hardened_config
from exhume.simulate import attackers


def test_explain_names_the_rules_and_the_bare_server():
    text = explain(make_settings({"defence": "hardened"}))
    for words in ("settings hardened", "bare server", "know the settings"):
        assert words in text
    made = hardened_config(128)
    assert all(f": {entry.rule}" in text for entry in (*made.admission, *made.release))
    assert "key" not in text.replace("keys", "")
    assert max(map(len, text.splitlines())) <= 120


def test_explain_gives_the_options_of_a_file(tmp_path):
    dump(Config(release=(Entry.of("posterior-noise", sigma=0.25, key="cd" * 16),)), tmp_path / "server.toml")
    text = explain(make_settings({"defence": str(tmp_path / "server.toml")}))
    assert "release: posterior-noise (sigma 0.25)" in text
    assert "cdcd" not in text


def test_explain_says_how_it_probes_estimates_and_recovers():
    text = explain(make_settings({"probe": "random", "estimator": "symmetric", "recovery": "difference"}))
    assert f"- random: {probes.REGISTRY['random'].about.format(scale=1e4)}" in text
    assert "- symmetric: " in text and "- direct: " not in text
    assert f"- difference: {recover.REGISTRY['difference'].about}" in text and "- rank-one: " not in text


def test_explain_lists_the_attackers_that_know_the_settings():
    usual = explain(make_settings({"defence": "hardened"}))
    assert all((f"- {name}: {a.about}" in usual) == (a.aim != "burn") for name, a in attackers.REGISTRY.items())
    chosen = explain(make_settings({"defence": "hardened", "attack": "burn"}))
    assert "- burn: " in chosen and "- oracle: " not in chosen
