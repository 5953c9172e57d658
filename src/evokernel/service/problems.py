"""Errors as problem+json (RFC 9457): a status, a title and one line that says what to change."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from evokernel.core.errors import InfraError, UserError

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
MAX_DETAIL_CHARS = 1000
MAX_MISTAKES = 5
NOT_JSON = "send the body as JSON with the header Content-Type: application/json"


class Problem(Exception):
    """An answer that refuses a request."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    @classmethod
    def retry_later(cls, status: int, detail: str, seconds: int) -> Problem:
        """An answer that asks the client to come back after some seconds."""
        return cls(status, detail, {"retry-after": str(max(1, seconds))})


class ProblemBody(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"title": "Not Found", "status": 404, "detail": "there is no verification with this id"}}
    )

    title: str
    """Name of the status."""
    status: int
    detail: str
    """One line: what is wrong and what to change."""


def problem_response(problem: Problem) -> Response:
    """The answer for a problem; text that is not valid Unicode is escaped."""
    detail = " ".join(problem.detail.split())[:MAX_DETAIL_CHARS]
    body = {"title": HTTPStatus(problem.status).phrase, "status": problem.status, "detail": detail}
    return Response(json.dumps(body), problem.status, problem.headers, MEDIA_TYPE)


def describe_validation_error(error: RequestValidationError, content_type: str) -> Problem:
    """Name the wrong fields; a body that is not JSON, or not said to be, is a malformed request."""
    mistakes = error.errors()
    first = mistakes[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"the body is not JSON: {first['ctx']['error']}")
    if tuple(first["loc"]) == ("body",) and not is_json(content_type):
        return Problem(415, NOT_JSON)
    more = f" (and {len(mistakes) - MAX_MISTAKES} more)" if len(mistakes) > MAX_MISTAKES else ""
    return Problem(422, "; ".join(map(describe_mistake, mistakes[:MAX_MISTAKES])) + more)


def is_json(content_type: str) -> bool:
    """Whether a body of this type is read as JSON."""
    name = content_type.partition(";")[0].strip().lower()
    return name == "application/json" or (name.startswith("application/") and name.endswith("+json"))


def describe_mistake(mistake: Mapping[str, Any]) -> str:
    """The field and what is wrong with it."""
    where = ".".join(str(part) for part in mistake["loc"] if part != "body") or "body"
    return f"{where}: {mistake['msg'].removeprefix('Value error, ')}"


def install_handlers(app: FastAPI) -> None:
    """Answer every error with problem+json."""

    async def answer_problem(_: Request, error: Problem) -> Response:
        return problem_response(error)

    async def answer_http(_: Request, error: HTTPException) -> Response:
        return problem_response(Problem(error.status_code, error.detail, error.headers))

    async def answer_invalid(request: Request, error: RequestValidationError) -> Response:
        return problem_response(describe_validation_error(error, request.headers.get("content-type", "")))

    async def answer_user_error(_: Request, error: UserError) -> Response:
        return problem_response(Problem(422, str(error)))

    async def answer_unavailable(_: Request, error: Exception) -> Response:
        log.error("request failed: %s", error)
        return problem_response(Problem.retry_later(503, "the server cannot do this now; try again later", 10))

    async def answer_bug(_: Request, error: Exception) -> Response:
        return problem_response(Problem(500, "the server failed; its operator finds the cause in the log"))

    handlers = {
        Problem: answer_problem,
        HTTPException: answer_http,
        RequestValidationError: answer_invalid,
        UserError: answer_user_error,
        InfraError: answer_unavailable,
        sqlite3.Error: answer_unavailable,
        Exception: answer_bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)  # type: ignore[arg-type]


def document_problems(*statuses: int) -> dict[int | str, dict[str, object]]:
    """The `responses` of a route in OpenAPI: those that every route has, and these."""
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": ProblemBody.model_json_schema()}}}
        for status in sorted({400, 401, 403, 422, 429, 503, *statuses})
    }
