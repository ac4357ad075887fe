"""The OpenAPI descriptions of a running service, tried by schemathesis: no 500, nothing that the description denies."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")
schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")

pytestmark = pytest.mark.extras

LISTENING = "/events"
SAFETENSORS = "application/vnd.exhume+safetensors"


@pytest.mark.parametrize("who", ["client", "operator"])
def test_a_service_keeps_to_its_description(running, who):
    schemathesis.openapi.media_type(SAFETENSORS, st.binary(max_size=200))
    service = running()
    address, token = (
        (service.address, service.tokens["a"])
        if who == "client"
        else (service.operator_address, service.operator_token)
    )
    headers = {"Authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_url(f"{address}/v1/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if LISTENING in operation.path or (who == "operator" and operation.path == "/v1/clients/{name}/rotate"):
            continue  # a stream without an end; and what would take the token in use away

        _try(operation, headers)
        tried += 1
    assert tried >= (6 if who == "client" else 8)


def _try(operation, headers):
    """Let hypothesis make requests of one operation, and hold the answers to the description."""
    beyond = _beyond(operation.path)

    @settings(
        max_examples=15,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def holds(case):
        case.call_and_validate(headers=headers, timeout=20, excluded_checks=beyond)

    holds()


def _beyond(path):
    """Return the checks that a description cannot promise: bytes are hardly ever a message."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    return [positive_data_acceptance] if path == "/v1/updates" else []
