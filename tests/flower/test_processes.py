"""What a deployment is made of, without starting it: quiet processes, keys for their owners, everything on loopback."""

import stat
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


def test_a_deployment_has_nodes(tmp_path):
    with pytest.raises(InputError, match="nodes"):
        Deployment(tmp_path, []).prepare()
