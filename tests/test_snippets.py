"""Every command and every snippet on a page is run, unless the line above it says what it needs.

``<!-- needs: hours -->`` before a block leaves it out; the reason is for readers of the source. Audits run with small
sizes added, which win over what the page says: what is tested is that the command works, not what it prints.
"""

import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

from exhume.cli._edge import carry_out
from exhume.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SMALL = "--dim 16 --clients 3 --trials 2 --kind record --jobs 1 --no-remedy"
BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>[^>]+) -->\n)?[ ]*```(?P<kind>console|python)\n(?P<body>.*?)```", re.S)


def blocks(kind):
    """Yield page, number of the block on it, and body, of those that need nothing special."""
    for page in PAGES:
        if "decisions" in page.parts:
            continue
        for number, found in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            if found["kind"] == kind and not found["needs"]:
                yield str(page.relative_to(ROOT)), number, found["body"]


def lines():
    """Yield every command on a page, once."""
    seen = set()
    for page, _, body in blocks("console"):
        for line in re.findall(r"^ *\$ (.*)$", body, flags=re.MULTILINE):
            command = re.sub(r"(^|\s)#.*", "", line).strip()
            if command and command not in seen:
                seen.add(command)
                yield pytest.param(page, command, id=f"{page}: {command}")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files that pages speak of."""
    from exhume.defence.config import Config, Entry, dump

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "features.npz", features=rng.standard_normal((400, 12)), labels=rng.integers(0, 3, 400))
    dump(Config(admission=(Entry.of("duplicates"),)), tmp_path / "server.toml")
    (tmp_path / "audit.toml").write_text("clients = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXHUME_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(ROOT))
    return tmp_path


@pytest.mark.parametrize(("page", "command"), list(lines()))
def test_every_command_on_a_page_runs(page, command, place, capsys):
    words = shlex.split(command.replace("~/.cache/exhume", str(place / "home")))
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return
    assert words[0].removeprefix(".venv/bin/") == "exhume", f"{page}: say what '{command}' needs"
    if words[1] == "audit" and not {"--explain", "--target"} & set(words):
        words += SMALL.split()
        if "--features" in words:
            words = [*words, "--dim", "12"]
        if "--defence" in words:
            words += ["--attack", "passive"]
    if words[1:3] == ["decode", "show"]:
        assert carry_out(app, ["decode", "train", "ridge"]) == 0
    if words[1] == "advise":
        words += shlex.split("--quick --dim 16 --trials 10 --attack passive --defence none,float32 --jobs 1")
    if "--fail-on" in words:
        words = [word for word in words if word not in ("--fail-on", words[words.index("--fail-on") + 1])]
    code = carry_out(app, words[1:])
    assert code == 0, capsys.readouterr().err


def spoken_of(place):
    """Return what pages take for granted: a server with rows in it, its operator's rows, keys, names of sizes."""
    import exhume as ex
    from exhume.defence import release
    from exhume.defence.config import Config, Entry, build_server, dump

    rng = np.random.default_rng(1)
    d, c = 512, 10
    features, labels = np.abs(rng.standard_normal((600, d))), rng.integers(0, c, 600)
    config = Config(release=(Entry.of("heads", precision="float32"),))
    dump(config, place / "defence.toml")
    ledger = ex.Ledger.zeros(d, c, gamma=1e-3)
    server = build_server(ledger.copy(), config)
    ex.Client(server, "owner").add(features, labels)
    full = ledger.copy()
    full.apply(ex.Update.adding(ex.Summary.of(features, labels, c)))
    names = {"np": np, "ex": ex, "exhume": ex, "release": release, "d": d, "c": c, "features": features}
    names |= {
        "labels": labels,
        "my_features": features,
        "my_labels": labels,
        "honest_features": features,
        "ledger": full,
        "server": server,
    }
    names |= {"honest_blocks": [ex.Summary.of(features[i::9], labels[i::9], c) for i in range(9)]}
    names |= {"target": server.as_target("mallory"), "path": place / "decoder.safetensors", "key": b"k" * 32}
    names |= {"key_a": b"a" * 32, "key_b": b"b" * 32, "update": ex.Update.adding(ex.Summary.zeros(d, c))}
    return names | {"__name__": "page"}


def pages_with_snippets():
    """Return the snippets of each page, which go on from one another."""
    found = {}
    for page, _, body in blocks("python"):
        found.setdefault(page, []).append(body)
    return [pytest.param(page, bodies, id=page) for page, bodies in found.items()]


@pytest.fixture
def anew():
    """Let the package be imported anew: what other tests have imported would hide what a snippet forgot."""

    def ours():
        return [name for name in sys.modules if name.partition(".")[0] == "exhume"]

    kept = {name: sys.modules.pop(name) for name in ours()}
    yield
    for name in ours():
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.mark.parametrize(("page", "bodies"), pages_with_snippets())
def test_every_snippet_on_a_page_runs(page, bodies, anew, place):
    names = spoken_of(place)
    warnings.simplefilter("error", names["ex"].errors.OldNameWarning)
    for body in bodies:
        exec(compile(textwrap.dedent(body), page, "exec"), names)


def test_pages_leave_out_little():
    """Whoever marks a block as needing something says what, and most blocks need nothing."""
    found = [m for page in PAGES for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    needy = [m["needs"] for m in found if m["needs"]]
    assert len(found) > 20 and len(needy) < len(found) / 2
