"""The example's profiles, read as Flower reads them. The simulation is not run: it starts Ray, which calls outside."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from flwr.cli.config_utils import load_and_validate
from flwr.cli.constant import DEFAULT_FLOWER_CONFIG_TOML, LOCAL_SUPERLINK_ADDRESS_MAGIC_VALUE
from flwr.clientapp import ClientApp
from flwr.common.config import get_fused_config_from_dir, parse_config_args
from flwr.common.constant import PARTITION_ID_KEY
from flwr.serverapp import ServerApp
from flwr.supercore.object_ref import load_app
from flwr.supercore.utils import simulation_config_from_json
from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

pytestmark = pytest.mark.flower

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower"
APPS = (EXAMPLE, ROOT / "benchmarks" / "flower_app")
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


def command(start):
    """Return the words of a command that the README shows."""
    (found,) = re.findall(rf"^\$ ({re.escape(start)}(?:.*\\\n)*.*)$", README, re.MULTILINE)
    return shlex.split(found.replace("\\\n", " ").replace("$PWD", "/here"), comments=True)


def after(words, option):
    return words[words.index(option) + 1]


@pytest.mark.parametrize("folder", APPS, ids=lambda path: path.name)
def test_flower_takes_the_app_without_a_warning_and_finds_both_parts(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    config, warnings = load_and_validate(folder / "pyproject.toml")
    assert warnings == []
    parts = config["tool"]["flwr"]["app"]["components"]
    assert isinstance(load_app(parts["serverapp"], ValueError, folder), ServerApp)
    assert isinstance(load_app(parts["clientapp"], ValueError, folder), ClientApp)


def test_the_simulation_profile_is_one_that_flower_reads():
    words = command("flwr run . local")
    # The connection "local" is in the configuration that Flower writes for a new user, and means a simulation.
    known = tomllib.loads(DEFAULT_FLOWER_CONFIG_TOML)["superlink"]
    assert known[words[3]]["address"] == LOCAL_SUPERLINK_ADDRESS_MAGIC_VALUE
    asked = parse_config_args([after(words, "--federation-config")])
    simulated = simulation_config_from_json({name.replace("-", "_"): value for name, value in asked.items()})
    config = get_fused_config_from_dir(EXAMPLE, parse_config_args([after(words, "--run-config")]))
    # As many nodes as the server waits for, each with a partition of its own, under the name that the node reads.
    assert simulated.num_supernodes == config["nodes"] == config["partitions"]
    assert f'node_config["{PARTITION_ID_KEY}"]' in (EXAMPLE / "exhume_flower" / "client_app.py").read_text("utf-8")
    assert (config["store"], config["key"]) == ("/here/simulated.db", "/here/simulated.key")
    with pytest.raises(ValueError, match="num_nodes"):
        simulation_config_from_json({"num_nodes": 4})


def test_an_option_that_the_app_does_not_have_is_refused_by_flower():
    with pytest.raises(ValueError, match="rowz"):
        get_fused_config_from_dir(EXAMPLE, {"rowz": 3})


def test_the_other_data_are_options_that_the_app_has():
    (text,) = re.findall(r'`--run-config "(data=.*)"`', README)
    config = get_fused_config_from_dir(EXAMPLE, parse_config_args([text]))
    assert (config["data"], config["encoder"], config["grid"]) == ("cifar10", "resnet18", 0.0)


def test_the_commands_by_hand_are_those_of_this_flower():
    server, node = command("flower-superlink"), command("flower-supernode")
    told = _parse_args_run_superlink().parse_args(server[1:])
    assert told.enable_supernode_auth and not told.runtime_dependency_install and told.ssl_keyfile
    told = _parse_args_run_supernode().parse_args(node[1:])
    assert (
        told.auth_supernode_private_key and told.root_certificates == "ca.pem" and not told.runtime_dependency_install
    )
    assert parse_config_args([told.node_config]) == {"partition-id": 0}


def test_the_benchmark_carries_the_same_ledger_dense_and_tells_bytes():
    words = ["--dims", "24", "--nodes", "2", "--rows", "5", "--rounds", "2", "--json"]
    script = str(ROOT / "benchmarks" / "flower.py")
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=True)
    dense, factored = json.loads(done.stdout)
    assert (dense["form"], factored["form"]) == ("dense", "factored")
    # Written out: two grams of 24 x 24 and two moments of 24 x 10. Factored: 5 rows and one of them in their place.
    assert dense["bytes_up"] - factored["bytes_up"] == pytest.approx(8 * (2 * 24 * 24 - 6 * 24), rel=0.2)
    assert dense["bytes_down"] == factored["bytes_down"]


def test_the_documents_say_that_the_simulation_was_not_run():
    for text in (README, (ROOT / "docs" / "flower.md").read_text(encoding="utf-8")):
        said = " ".join(text.split())
        assert "We have not run the simulation profile" in said and "Ray contacts addresses outside the machine" in said
