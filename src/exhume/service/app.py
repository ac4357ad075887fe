"""The API for clients: what the ledger is, the head, and messages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from exhume._version import __version__
from exhume.errors import InputError
from exhume.protocol.wire import ATTACHED, FACTORED, VERSION, decode_update
from exhume.service.core import FederationService
from exhume.service.limits import bounds_of, read_body, until_tick
from exhume.service.problems import ProblemError, as_problem, install, responses
from exhume.store import Sent, StoredReceipt, as_key

__all__ = ["BEARER", "SAFETENSORS", "ClientReceipt", "Info", "client_app", "describe", "health_routes"]

SAFETENSORS = "application/vnd.exhume+safetensors"
_TAKEN = ("", SAFETENSORS, "application/octet-stream", "application/x-safetensors")
_SMALL = 1 << 16
"""Bytes of a message that is read at once; a larger one is read in a thread."""

_ENDING = {"Connection": "close"}
"""Who shows no token does not keep a connection: idle ones would leave no room for those who do."""

BEARER: dict[str, Any] = {"security": [{"token": []}]}


class Info(BaseModel):
    """What a client must know to take part; all of it is public."""

    service: str = Field(description="Which store this is.")
    version: str
    d: int
    c: int
    gamma: float
    grid: float | None
    formats: list[str] = Field(description="Versions of the wire format that are read.")
    asks: list[str] = Field(description="What a message must carry: of 'rows' and 'tag'.")
    bounds: dict[str, float] | None = Field(
        description="What rows must keep to: longest (their length), message_rows, client_rows; null without bounds."
    )
    most_bytes: int
    most_rows: int
    per_minute: float
    round: dict[str, float] = Field(description="How long and up to how many clients a round is gathered.")
    forget_seconds: float = Field(description="Within this time what was deleted has left the disk.")
    public_key: str = Field(description="Checks the signatures of deletions.")


class ClientReceipt(BaseModel):
    """The answer to a message: the same for the same key and message, for ever, but for a deletion's statement."""

    key: str
    accepted: bool
    code: str | None = Field(description="Why it was refused, as far as its sender may know.")
    number: int = Field(description="Logical submissions accepted by then.")
    serial: int | None = Field(description="The broadcast that followed; null where the head was withheld or refused.")
    at: float = Field(description="Seconds since 1970.")
    deletion: dict[str, Any] | None = Field(description="A signed statement: taken when, gone from the disk when.")


def told(service: FederationService, receipt: StoredReceipt) -> ClientReceipt:
    """Return a receipt as its client sees it."""
    return ClientReceipt(
        key=receipt.key,
        accepted=receipt.accepted,
        code=service.code(receipt),
        number=receipt.number,
        serial=receipt.serial,
        at=receipt.at,
        deletion=service.store.statement(receipt),
    )


def client_app(service: FederationService) -> FastAPI:
    """Return the application that clients talk to."""
    app = FastAPI(
        title="Exhume",
        version="1",
        summary="Exact federated unlearning with ridge heads.",
        description="Updates and heads are safetensors. Every error is a problem document (RFC 9457).",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    install(app)
    describe(app, "A client's token.")
    health_routes(app, service)
    _info(app, service)
    _heads(app, service)
    _updates(app, service)
    return app


def health_routes(app: FastAPI, service: FederationService) -> None:
    """Give an application what a supervisor asks for."""

    @app.get("/healthz", summary="Whether the process lives", response_class=PlainTextResponse)
    async def healthz() -> Response:
        return PlainTextResponse("ok\n", headers=_ENDING)

    @app.get(
        "/readyz",
        summary="Whether messages are taken and deletions leave the disk",
        response_class=PlainTextResponse,
        responses=responses(503),
    )
    async def readyz() -> Response:
        if service.ready is not None:
            raise ProblemError(
                503, "messages are not taken, or deletions do not leave the disk; the operator is told why"
            )
        return PlainTextResponse("ready\n", headers=_ENDING)


def _info(app: FastAPI, service: FederationService) -> None:
    @app.get("/v1/info", summary="Sizes, formats and limits", responses=responses(401, 403), openapi_extra=BEARER)
    async def info(request: Request) -> Info:
        service.client(request)
        store, limits = service.store, service.limits
        return Info(
            service=store.identity,
            version=__version__,
            d=store.setup.d,
            c=store.setup.c,
            gamma=store.setup.gamma,
            grid=store.setup.grid,
            formats=[VERSION, ATTACHED, FACTORED],
            asks=sorted({what for rule in store.server.admission for what in rule.asks}),
            bounds=None if (bounds := bounds_of(store.server)) is None else bounds.options(),
            most_bytes=service.most_bytes,
            most_rows=limits.rows,
            per_minute=limits.per_minute,
            round={"seconds": service.gathering.seconds, "clients": service.gathering.clients},
            forget_seconds=store.forgetting.seconds,
            public_key=store.public_key,
        )


def _heads(app: FastAPI, service: FederationService) -> None:
    binary: dict[str, Any] = {"content": {SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}}}

    @app.get(
        "/v1/head",
        summary="The head last broadcast; its ETag is its serial",
        response_class=Response,
        responses={200: binary, 304: {"description": "The head is the one you have"}, **responses(401, 403, 404)},
        openapi_extra=BEARER,
    )
    async def head(request: Request) -> Response:
        service.client(request)
        published = service.store.published
        if published.encoded is None:
            raise ProblemError(404, "no head has been released yet")
        headers = {"ETag": f'"{published.serial}"', "Cache-Control": "no-cache"}
        wanted = request.headers.get("if-none-match", "")
        if headers["ETag"] in [tag.strip().removeprefix("W/") for tag in wanted.split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(published.encoded, headers=headers, media_type=SAFETENSORS)

    @app.get(
        "/v1/head/events",
        summary="A line for every broadcast (server-sent events)",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **responses(401, 403, 429),
        },
        openapi_extra=BEARER,
    )
    async def events(request: Request) -> StreamingResponse:
        who = service.client(request).name
        lines = _broadcasts(service, who, lambda: service.client(request))
        first = await anext(lines)  # here, where too many listeners are still a problem document
        return StreamingResponse(_after(first, lines), media_type="text/event-stream", headers=_UNCACHED)


_UNCACHED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def _after(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for line in rest:
        yield line


async def _broadcasts(service: FederationService, who: str, allowed: Callable[[], object]) -> AsyncIterator[str]:
    """Tell every broadcast to whoever may still hear it: a token that was revoked ends the stream."""
    news = service.news(who)
    waiting = asyncio.ensure_future(anext(news))
    await asyncio.sleep(0)  # the ear is open before the present is told: nothing falls in between
    if waiting.done() and waiting.exception() is not None:
        raise waiting.exception() or RuntimeError
    try:
        serial = service.store.published.serial
        yield _event(serial, service.store.published.at)
        while True:
            try:
                one = await waiting
            except StopAsyncIteration:
                return
            waiting = asyncio.ensure_future(anext(news))
            try:
                allowed()
            except ProblemError:
                return
            if one is None:
                yield ": still here\n\n"
            elif one.published.serial != serial:
                serial = one.published.serial
                yield _event(serial, one.published.at)
    finally:
        waiting.cancel()


def _event(serial: int, at: float) -> str:
    return f"id: {serial}\nevent: head\ndata: {json.dumps({'serial': serial, 'at': at})}\n\n"


def _updates(app: FastAPI, service: FederationService) -> None:
    body = {"content": {SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}}, "required": True}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": "Your name for this message: sent again under it, it counts once and gets the same receipt.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    }

    @app.post(
        "/v1/updates",
        summary="Send an update; the answer comes when it is on the disk",
        responses=responses(400, 401, 403, 408, 409, 413, 415, 429, 503),
        openapi_extra={**BEARER, "requestBody": body, "parameters": [key]},
    )
    async def submit(request: Request) -> ClientReceipt:
        client = service.client(request)
        try:
            name = as_key(request.headers.get("idempotency-key"))
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in _TAKEN:
                raise ProblemError(415, field="Content-Type", allowed=SAFETENSORS, got=kind)
            service.rates.take(client.name)
            length = request.headers.get("content-length")
            data = await read_body(request.stream(), length, service.most_bytes, service.limits.body_seconds)
            async with _paced(service.limits.pace):
                setup = service.store.setup
                sizes: dict[str, Any] = {"d": setup.d, "c": setup.c, "gamma": setup.gamma}
                if len(data) <= _SMALL:
                    update = decode_update(data, **sizes)
                else:
                    update = await asyncio.to_thread(decode_update, data, **sizes)
                service.client(request)  # a token that was revoked while the body came is no longer taken
                receipt = await service.writer.submit(Sent(client.name, name, data, update))
        except Exception as error:
            raise as_problem(error) from error
        return told(service, receipt)

    @app.get(
        "/v1/updates/{key:path}",
        summary="The receipt of a message, again",
        responses=responses(401, 403, 404),
        openapi_extra=BEARER,
    )
    async def receipt(request: Request, key: Annotated[str, Path(max_length=200)]) -> ClientReceipt:
        client = service.client(request)
        try:
            found = await asyncio.to_thread(service.store.receipt, client.name, as_key(key))
        except InputError:  # no message can have such a key
            found = None
        if found is None:
            raise ProblemError(404, "you have sent nothing under this key")
        return told(service, found)


@asynccontextmanager
async def _paced(pace: float) -> AsyncIterator[None]:
    """Let the block end at a whole multiple of ``pace`` seconds after it began, however it ends."""
    began = time.monotonic()
    try:
        yield
    finally:
        await asyncio.sleep(until_tick(time.monotonic() - began, pace))


def describe(app: FastAPI, about: str) -> None:
    """Say in the API's description that a token is needed."""
    made = app.openapi

    def described() -> dict[str, Any]:
        schema = made()
        scheme = {"type": "http", "scheme": "bearer", "description": about}
        schema.setdefault("components", {})["securitySchemes"] = {"token": scheme}
        return schema

    app.openapi = described  # type: ignore[method-assign]
