"""Refusals: every error is answered with a status and one sentence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from counterpop.errors import InputError
from counterpop.serving.shapes import Problem

UNEXPECTED = "unexpected error; the server's log has the details"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "A token is required."},
    404: {"model": Problem, "description": "The user or item is unknown."},
    422: {"model": Problem, "description": "A parameter or the body is invalid."},
    503: {"model": Problem, "description": "Too many requests, or no answer in time."},
}
BODY_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body cannot be read."},
    408: {"model": Problem, "description": "The body did not arrive in time."},
    413: {"model": Problem, "description": "The body is too large."},
}


class Refusal(Exception):
    """An error answer: a status and one sentence."""

    def __init__(self, status: int, detail: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.status, self.detail, self.headers = status, detail, headers


def problem(detail: str) -> bytes:
    """The body of a refusal, in ASCII so that no text from a request can break it."""
    return json.dumps({"detail": detail}).encode()


def shorten(value: object) -> str:
    """The value's repr, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def handle_errors(app: FastAPI) -> None:
    """Makes the application answer every exception with a refusal."""
    for kind in (Refusal, InputError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    status, detail, headers = 500, UNEXPECTED, {}  # the guard logs the traceback
    if isinstance(error, Refusal):
        status, detail = error.status, error.detail
    elif isinstance(error, InputError):
        status, detail = 422, str(error)
    elif isinstance(error, RequestValidationError):
        status, detail = 422, _invalid(request, error)
    elif isinstance(error, HTTPException):
        status, headers = error.status_code, dict(error.headers or {})
        if status == 405:  # several routes may share a path
            own = [route for route in request.app.routes if route.path == request.url.path]
            headers["Allow"] = ", ".join(sorted({method for route in own for method in route.methods}))
        path = shorten(request.url.path)
        detail = {
            404: f"there is nothing at {path}; /openapi.json lists the paths",
            405: f"{request.method} is not allowed at {path}; use {headers.get('Allow')}",
            400: "the body cannot be read as JSON",
        }.get(status, str(error.detail))
    return Response(problem(detail), status, headers, media_type="application/json")


def _invalid(request: Request, error: RequestValidationError) -> str:
    """The first problem of an invalid request in a sentence, and the number of others."""
    first, *others = error.errors()
    where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    if first["type"] == "extra_forbidden":
        text = f"{shorten(where)} is not a parameter of {request.url.path}"
    elif first["type"] == "missing":
        text = f"{where} is missing"
    elif first["type"] == "json_invalid":
        text = f"the body must be JSON: {first['ctx']['error']}"
    elif first["loc"] == ("body",):
        text = "the body must be a JSON object, sent as application/json"
    else:
        _, _, must = first["msg"].partition(" should ")  # of "Input should be", "String should have", ...
        must = must.partition(" after validation")[0] or first["msg"]
        text = f"{where} must {must}, got {shorten(first['input'])}"
    return f"{text} (and {len(others)} more problems)" if others else text
