"""Answers of pages: HTML with what keeps it from being used by others, and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

import agentprof
from agentprof import _format as fmt
from agentprof_collector.api.answers import Refused
from agentprof_collector.api.endpoint import Endpoint
from agentprof_collector.api.resources import without_operation
from agentprof_collector.page import assets

_NAME = 160
"""Columns of the longest name that is shown whole."""
_SAFE: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer a browser would not say that a form comes from here.
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agentprof_collector.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = _whole
    environment.filters["cut"] = _cut
    environment.globals["asset"] = assets.address
    environment.globals["version"] = agentprof.__version__
    return environment


def _cut(text: str) -> str:
    """A name of a size that a table has room for; the JSON has all of it."""
    return fmt.cut(text, _NAME)


def _whole(text: str) -> str:
    """An amount that no line ends in: its sign stays with its digits."""
    return text.replace(" $", "\N{NO-BREAK SPACE}$")


def page(template: str, code: int = 200, **view: Any) -> Response:
    """A page that is not kept: figures change with every span."""
    text = _environment().get_template(template).render(view)
    return Response(text, code, {**_SAFE, "Cache-Control": "no-store"}, "text/html; charset=utf-8")


def to(address: str) -> Response:
    """Go and look there, after a form."""
    return Response(None, 303, {**_SAFE, "Cache-Control": "no-store", "Location": address})


def error_page(refused: Refused) -> Response:
    """Why there is no page."""
    response = page("error.html", refused.status, status=refused.status, message=str(refused))
    response.headers.update(refused.headers)
    return response


class PageEndpoint(Endpoint):
    """Says on a page why there is no other."""

    def refusal(self, refused: Refused) -> Response:
        return error_page(refused)


class Files(PageEndpoint):
    """Style, script and icon, from memory: no path of a request is looked up on the disk."""

    async def answer(self, request: Request) -> Response:
        """The file of that name."""
        asset = assets.assets().get(request.path_params["name"])
        if asset is None:
            raise Refused(404, "there is no such file")
        if (early := without_operation(request.method, {"GET"})) is not None:
            return early
        headers = {**_SAFE, "Cache-Control": "public, max-age=86400, immutable"}
        return Response(asset.content, 200, headers, asset.media_type)
