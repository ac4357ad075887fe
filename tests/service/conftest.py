"""A running service on loopback, with two clients and an operator."""

import threading
from types import SimpleNamespace

import pytest


@pytest.fixture
def running(tmp_path):
    """Return what starts a service; every one that was started is stopped at the end."""
    import httpx

    from exhume.service import Address, FederationService, Gathering, Limits, serve
    from exhume.store import OperatorKey
    from exhume.store import open as open_store
    from tests.store.world import SETUP

    made = []

    def start(setup=SETUP, *, limits=None, gathering=None, url=None, names=("a", "b"), listen=None, **options):
        store = open_store(url or str(tmp_path / "store.db"), setup, OperatorKey(bytes(range(32))), **options)
        service = FederationService(store, limits or Limits(rows=50), gathering or Gathering())
        tokens = {name: service.tokens.enrol(name) for name in names} if not service.tokens.all() else {}
        operator = None if service.tokens.all("operator") else service.tokens.enrol("op", "operator")
        up, addresses = threading.Event(), []

        def started(found):
            addresses.extend(found)
            up.set()

        def run():
            serve(service, listen or Address(port=0), Address(port=0), started=started, log_level="critical")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert up.wait(30)

        def client(token, address=addresses[0], verify=True):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            http = httpx.Client(base_url=address, headers=headers, timeout=30, trust_env=False, verify=verify)
            made.append((None, None, http))
            return http

        def stop():
            service.stop()
            thread.join(30)
            assert not thread.is_alive()

        made.append((service, thread, None))
        return SimpleNamespace(
            service=service,
            store=store,
            address=addresses[0],
            operator_address=addresses[1],
            tokens=tokens,
            operator_token=operator,
            client=client,
            stop=stop,
            **{name: client(token) for name, token in tokens.items()},
            op=client(operator, addresses[1]),
        )

    yield start
    for service, thread, http in made:
        if http is not None:
            http.close()
        elif thread.is_alive():
            service.stop()
            thread.join(30)
