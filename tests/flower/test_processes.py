"""What a deployment is made of, without starting it: quiet processes, keys for their owners, everything on loopback."""

import stat
import time
import tomllib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from exhume.errors import InputError
from exhume.flower.deploy import Deployment

pytestmark = pytest.mark.flower


def test_every_process_is_told_to_be_quiet_whatever_the_shell_says(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    env = Deployment(tmp_path, [{}]).env()
    assert (env["FLWR_TELEMETRY_ENABLED"], env["FLWR_DISABLE_UPDATE_CHECK"]) == ("0", "1")
    assert env["FLWR_HOME"] == str(tmp_path / "flwr")


def test_certificates_and_keys_are_made_once_and_secrets_are_their_owners(tmp_path):
    Deployment(tmp_path, [{}, {}]).prepare()
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    Deployment(tmp_path, [{}, {}]).prepare()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == kept
    for name in ("server.key", "node0", "node1"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    private = load_ssh_private_key(kept["node0"], None)
    assert private.curve.name == "secp384r1"
    assert private.public_key() == load_ssh_public_key(kept["node0.pub"]) != load_ssh_public_key(kept["node1.pub"])
    root, leaf = (x509.load_pem_x509_certificate(kept[name]) for name in ("ca.pem", "server.pem"))
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_flowers_command_is_pointed_at_this_deployment(tmp_path):
    made = Deployment(tmp_path, [{}])
    made.prepare()
    told = tomllib.loads((tmp_path / "flwr" / "config.toml").read_text(encoding="utf-8"))["superlink"]
    assert told["default"] == "exhume" and told["exhume"]["address"] == f"127.0.0.1:{made.port}"
    assert told["exhume"]["root-certificates"] == str(tmp_path / "ca.pem")


def test_a_node_that_is_refused_is_started_again_until_it_is_let_in(tmp_path, monkeypatch):
    # As Flower does for about a minute: the first two logins end with an error, the third is let in.
    tool = tmp_path / "flower-supernode"
    tool.write_text(
        "#!/bin/sh\necho try >> tries\n[ $(wc -l < tries) -ge 3 ] && exec sleep 60\nexit 1\n", encoding="utf-8"
    )
    tool.chmod(0o755)
    monkeypatch.setattr("exhume.flower.deploy._tool", lambda name: str(tool.parent / name))
    made = Deployment(tmp_path, [{}])
    made.prepare()
    try:
        made.start_node(0)
        for _ in range(2):
            assert made.processes["node0"].wait(20) == 1
            assert made.supervise() == ["node0"]
        end = time.monotonic() + 20
        while len((tmp_path / "tries").read_text(encoding="utf-8").splitlines()) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        assert made.supervise() == [] and made.restarts == {"node0": 2}
        assert made.processes["node0"].poll() is None
    finally:
        made.stop()


def test_a_deployment_has_nodes(tmp_path):
    with pytest.raises(InputError, match="nodes"):
        Deployment(tmp_path, []).prepare()
