"""What goes wrong, as problem documents (RFC 9457): what, which field, what is allowed, what came."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from exhume.errors import ConflictError, InputError, StoreError, shown

__all__ = ["MEDIA", "Problem", "ProblemError", "as_problem", "install", "responses"]

MEDIA = "application/problem+json"

_TITLES = {
    400: "The message cannot be read",
    401: "A token is needed",
    403: "This token may not do this",
    404: "There is nothing here",
    405: "This address does not do this",
    408: "The message came too slowly",
    409: "The key was used before, for another message",
    411: "The length of the message is missing",
    413: "The message is too large",
    415: "This kind of content is not taken",
    422: "A value is not allowed",
    429: "Too many messages",
    500: "Something went wrong here",
    503: "The service cannot do this now",
}


class Problem(BaseModel):
    """A problem document."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None
    field: str | None = Field(default=None, description="What was wrong.")
    allowed: str | None = Field(default=None, description="What it may be.")
    got: str | None = Field(default=None, description="What came.")


class ProblemError(Exception):
    """An answer that is a problem document."""

    def __init__(
        self,
        status: int,
        detail: str | None = None,
        *,
        field: str | None = None,
        allowed: str | None = None,
        got: object = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = headers or {}
        told = None if got is None else shown(got)
        title = _TITLES.get(status, "Something went wrong")
        self.problem = Problem(title=title, status=status, detail=detail, field=field, allowed=allowed, got=told)

    def response(self) -> Response:
        """Return the answer."""
        content = self.problem.model_dump(exclude_none=True)
        return JSONResponse(content, self.problem.status, self.headers, media_type=MEDIA)


def as_problem(error: Exception) -> ProblemError:
    """Return an error of ours as the problem that a client is told."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, ConflictError):
        return ProblemError(409, str(error), field="Idempotency-Key", allowed="a key for each message", got=error.key)
    if isinstance(error, InputError):
        return ProblemError(400, str(error), field=error.field, allowed=error.allowed, got=error.got)
    if isinstance(error, StoreError):  # its text may name files: that is for the operator's log
        return ProblemError(503, "the store cannot be written; nothing was taken", headers={"Retry-After": "5"})
    return ProblemError(500, "an error that nobody foresaw; the operator's log has it")


def responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return what the API's description says of these problems."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {code: {"model": Problem, "description": _TITLES[code], "content": {MEDIA: schema}} for code in codes}


def install(app: FastAPI) -> None:
    """Let every error of an application be a problem document."""

    @app.exception_handler(ProblemError)
    async def _ours(_: Request, error: ProblemError) -> Response:
        return error.response()

    @app.exception_handler(HTTPException)
    async def _theirs(_: Request, error: HTTPException) -> Response:
        return ProblemError(error.status_code, str(error.detail), headers=dict(error.headers or {})).response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return ProblemError(422, field=place, allowed=first["msg"], got=first.get("input")).response()

    @app.exception_handler(StoreError)
    async def _stored(_: Request, error: StoreError) -> Response:
        return as_problem(error).response()

    @app.exception_handler(Exception)
    async def _unforeseen(_: Request, error: Exception) -> Response:
        return as_problem(error).response()
