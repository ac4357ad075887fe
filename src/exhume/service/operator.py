"""The API for the operator, on an address of its own: tokens, exposure, deletions, refusals, decisions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from exhume._version import __version__
from exhume.errors import InputError
from exhume.service import views
from exhume.service.app import BEARER, describe, health_routes
from exhume.service.auth import NAME, Enrolled
from exhume.service.core import FederationService
from exhume.service.dashboard import dashboard_routes
from exhume.service.metrics import CONTENT_TYPE
from exhume.service.problems import ProblemError, install, responses

__all__ = ["operator_app"]


class NewClient(BaseModel):
    """Who is to be enrolled."""

    name: str = Field(max_length=128, json_schema_extra={"pattern": f"^{NAME.pattern}$"})


class GivenToken(BaseModel):
    """A token: shown once, kept nowhere."""

    name: str
    token: str


class ClientRow(BaseModel):
    """One client as the operator sees it."""

    name: str
    made_at: float
    revoked_at: float | None


class Status(BaseModel):
    """The service at a glance."""

    service: str
    version: str
    ready: bool
    trouble: str | None
    serial: int
    head_age: float | None
    waiting: int
    submissions: int
    messages: int
    broadcasts: int
    refused: int
    deletions_on_disk: int
    forget_seconds: float
    rules: list[views.RuleRow]
    interfering: list[str] = Field(description="Rules whose decisions may tell one client about others.")


def operator_app(service: FederationService) -> FastAPI:
    """Return the application that the operator talks to."""
    app = FastAPI(
        title="Exhume, for its operator",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    install(app)
    describe(app, "An operator's token.")
    health_routes(app, service)

    def operator(request: Request) -> Enrolled:
        return service.operator(request)

    _clients(app, service, Depends(operator))
    _reports(app, service, Depends(operator))
    dashboard_routes(app)
    return app


def _clients(app: FastAPI, service: FederationService, allowed: Any) -> None:
    def asked(error: InputError, status: int = 422) -> ProblemError:
        return ProblemError(status, str(error), field=error.field, allowed=error.allowed, got=error.got)

    protected: dict[str, Any] = {"dependencies": [allowed], "openapi_extra": BEARER}

    @app.get("/v1/clients", summary="Who was ever enrolled", responses=responses(401, 403), **protected)
    async def clients() -> list[ClientRow]:
        return [ClientRow(name=e.name, made_at=e.made_at, revoked_at=e.revoked_at) for e in service.tokens.all()]

    @app.post(
        "/v1/clients",
        summary="Enrol a client",
        status_code=201,
        responses=responses(401, 403, 409, 422, 503),
        **protected,
    )
    async def enrol(new: NewClient) -> GivenToken:
        try:
            return GivenToken(name=new.name, token=await asyncio.to_thread(service.tokens.enrol, new.name))
        except InputError as error:
            raise asked(error, 409 if "holds no token" in error.allowed else 422) from None

    @app.post(
        "/v1/clients/{name}/rotate",
        summary="Give a client a new token; the old one is no longer taken",
        responses=responses(401, 403, 404, 503),
        **protected,
    )
    async def rotate(name: str) -> GivenToken:
        try:
            return GivenToken(name=name, token=await asyncio.to_thread(service.tokens.rotate, name))
        except InputError as error:
            raise asked(error, 404) from None

    @app.delete(
        "/v1/clients/{name}",
        summary="Revoke a client's token; what it sent stays in the ledger",
        status_code=204,
        response_class=Response,
        responses=responses(401, 403, 404, 503),
        **protected,
    )
    async def revoke(name: str) -> Response:
        try:
            await asyncio.to_thread(service.tokens.revoke, name)
        except InputError as error:
            raise asked(error, 404) from None
        return Response(status_code=204)


def _reports(app: FastAPI, service: FederationService, allowed: Any) -> None:
    protected: dict[str, Any] = {
        "dependencies": [allowed],
        "openapi_extra": BEARER,
        "responses": responses(401, 403),
    }

    @app.get("/v1/status", summary="The service at a glance", **protected)
    async def status() -> Status:
        return status_of(service)

    @app.get(
        "/metrics",
        summary="Figures for a monitor",
        response_class=PlainTextResponse,
        **protected,
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/v1/exposure", summary="What each client could know by now", **protected)
    async def exposure() -> views.Exposures:
        return await asyncio.to_thread(views.exposures, service)

    @app.get("/v1/deletions", summary="Deletions with their privacy figures", **protected)
    async def deletions(limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[views.DeletionRow]:
        return await asyncio.to_thread(views.deletions, service, limit)

    @app.get("/v1/refusals", summary="Refusals by rule", **protected)
    async def refusals() -> dict[str, int]:
        return dict(service.refusals)

    @app.get("/v1/decisions", summary="Decisions, the latest first, with their reasons", **protected)
    async def decisions(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    ) -> list[views.DecisionRow]:
        return await asyncio.to_thread(views.decisions, service, limit, before)

    @app.get("/v1/events", summary="What happens (server-sent events)", response_class=StreamingResponse, **protected)
    async def events(request: Request) -> StreamingResponse:
        lines = _lines(service, lambda: service.operator(request))
        return StreamingResponse(lines, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def status_of(service: FederationService) -> Status:
    """Return the service at a glance."""
    store, published = service.store, service.store.published
    counts = published.counts
    return Status(
        service=store.identity,
        version=__version__,
        ready=service.ready is None,
        trouble=service.ready,
        serial=published.serial,
        head_age=None if published.head is None else max(0.0, time.time() - published.at),
        waiting=service.writer.waiting,
        submissions=counts.submissions,
        messages=counts.messages,
        broadcasts=counts.broadcasts,
        refused=counts.refused,
        deletions_on_disk=store.pending,
        forget_seconds=store.forgetting.seconds,
        rules=views.rules(service),
        interfering=views.tells(service),
    )


async def _lines(service: FederationService, allowed: Callable[[], object]) -> AsyncIterator[str]:
    yield _line("status", status_of(service).model_dump())
    async for news in service.news():
        try:
            allowed()
        except ProblemError:  # revoked since
            return
        if news is None:
            yield ": still here\n\n"
            continue
        for receipt in news.receipts:
            yield _line("decision", views.decision(receipt).model_dump())
        yield _line("status", status_of(service).model_dump())


def _line(event: str, content: dict[str, Any]) -> str:
    return f"event: {event}\ndata: {json.dumps(content)}\n\n"
