"""Two addresses in one process: clients on one, the operator on the other, until somebody says stop."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from exhume.errors import InputError
from exhume.service.app import client_app
from exhume.service.config import Address
from exhume.service.core import FederationService
from exhume.service.operator import operator_app

__all__ = ["serve"]

_MOST_HEAD = 1 << 16


class _Impatient(HttpToolsProtocol):
    """A protocol that ends connections whose request does not begin, or whose head or trailers are endless."""

    _seconds = 10.0
    _timer: asyncio.TimerHandle | None = None
    _head = 0
    _around = 0
    _body = 0

    def on_message_begin(self) -> None:
        self._around = self._body = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        before, body = self.cycle, self._body
        super().data_received(data)
        # Sizes of chunks and trailers. A chunk of one byte has five around it; trailers have no limit of their own.
        self._around += max(len(data) - max(self._body - body, 0), 0)
        if self._around > _MOST_HEAD + 8 * self._body:
            self.transport.abort()
        elif self._answering():
            self._stop()
        else:
            self._head = 0 if self.cycle is not before else self._head + len(data)
            if self._head > _MOST_HEAD:
                self.transport.abort()
            elif self._timer is None:
                self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self._seconds, self._give_up)

    def _stop(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self._answering():
            self.transport.abort()


def _impatient(seconds: float) -> type[HttpToolsProtocol]:
    """Return the protocol with this patience."""
    return type("Impatient", (_Impatient,), {"_seconds": seconds})


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    def capture_signals(self) -> Any:
        return nullcontext()


def _server(app: FastAPI, address: Address, service: FederationService, log_level: str) -> _Server:
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.private_key,
        http=_impatient(service.limits.header_seconds),
        ws="none",
        lifespan="off",
        access_log=False,
        log_level=log_level,
        limit_concurrency=service.limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        server_header=False,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InputError("certificate, private_key", "PEM files that belong together", error) from None
    return _Server(config)


async def _run(service: FederationService, servers: list[_Server], started: Callable[[list[str]], None] | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread, or not on this system
            loop.add_signal_handler(name, stop.set)
    tasks = [asyncio.create_task(_until_bound(server)) for server in servers]
    ended = asyncio.gather(*tasks)
    while not all(server.started for server in servers) and not any(task.done() for task in tasks):
        await asyncio.sleep(0.01)
    if started is not None and all(server.started for server in servers):
        started([_address(server) for server in servers])
    service.stop = lambda: loop.call_soon_threadsafe(stop.set)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(service.quiet)  # who waits is answered, who listens is let go
    for server in servers:
        server.should_exit = True
    waiting.cancel()
    await ended


async def _until_bound(server: _Server) -> None:
    try:
        await server.serve()
    except SystemExit:  # what uvicorn does where it cannot listen
        config = server.config
        raise InputError("listen", "an address that is free", f"{config.host}:{config.port}") from None


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop: uvloop's where it is installed (it is not on Windows)."""
    try:
        import uvloop
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def _address(server: _Server) -> str:
    config = server.config
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{'https' if config.is_ssl else 'http'}://{host}:{port}"


def serve(
    service: FederationService,
    listen: Address,
    operator: Address,
    *,
    started: Callable[[list[str]], None] | None = None,
    log_level: str = "warning",
) -> None:
    """Serve until a signal says stop; then answer who waits, take a last snapshot, and let go of the store.

    Parameters
    ----------
    service
        What is served.
    listen, operator
        Where, for clients and for the operator.
    started
        Told the two addresses once both are open.
    """
    try:
        servers = [
            _server(client_app(service), listen, service, log_level),
            _server(operator_app(service), operator, service, log_level),
        ]
        with asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(_run(service, servers, started))
    finally:
        service.close()
