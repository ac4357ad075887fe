"""The operator's page: three files that need nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response

__all__ = ["dashboard_routes"]

_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_HEADERS = {
    # Nothing but what this address serves: a name that a client chose can bring no script and no picture.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def dashboard_routes(app: FastAPI) -> None:
    """Give the operator's application its page. The page is public; what it shows is asked for with a token."""
    for path, (name, kind) in _FILES.items():
        content = files(__name__).joinpath(name).read_bytes()
        app.add_api_route(path, _answering(content, kind), methods=["GET"], include_in_schema=False)


def _answering(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8", headers=_HEADERS)

    return answer
