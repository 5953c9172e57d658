"""OpenAPI describes every route, and generated requests find no server error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from service_servers import TASK, request_body, serve_in_thread, tenant

schemathesis = pytest.importorskip("schemathesis")

from schemathesis import GenerationMode  # noqa: E402

MAX_EXAMPLES = 12
WITHOUT_INPUT: dict[Any, tuple[str, ...]] = {GenerationMode.POSITIVE: (), GenerationMode.NEGATIVE: ("/healthz",)}
"""Routes for which no wrong request exists, because they take nothing."""


def test_every_route_is_described_with_its_errors(server):
    schema = server.client().get("/openapi.json").json()
    assert {
        "/v1/verifications",
        "/v1/verifications/{id}",
        "/v1/verifications/{id}/events",
        "/v1/verifications/{id}/profile",
        "/v1/batches",
        "/v1/batches/{id}",
        "/v1/tasks",
        "/v1/tasks/{id}",
        "/v1/memory/search",
        "/v1/memory/items/{id}",
        "/healthz",
        "/metrics",
    } == set(schema["paths"])
    submit = schema["paths"]["/v1/verifications"]["post"]
    assert {"200", "202", "400", "401", "403", "409", "413", "415", "422", "429", "503"} == set(submit["responses"])
    assert "application/problem+json" in submit["responses"]["422"]["content"]
    assert schema["components"]["schemas"]["VerificationRequest"]["examples"]
    assert "HTTPValidationError" not in schema["components"]["schemas"], "every error is a problem"
    for methods in schema["paths"].values():
        assert all(route["summary"] and route["description"] for route in methods.values())


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_generated_requests_find_no_server_error(tmp_path: Path, bank: Path, mode: Any):
    """Every route, with a token, a memory bank and clients that may send references; requests as described, and wrong on purpose."""
    tenants = {"alice": tenant("alice", can_read_metrics=True)}
    with serve_in_thread(tmp_path, tenants, bank=bank, allow_task_source=True) as server:
        client = server.client("alice")
        body = request_body()
        batch = client.post("/v1/batches", json={"verifications": [body]}).json()
        known = KnownIds(
            verification=client.post("/v1/verifications", json=body, params={"wait_s": 30}).json()["id"],
            batch=batch["id"],
            item=client.get("/v1/memory/search", params={"q": "softmax", "limit": 1}).json()["items"][0]["id"],
        )
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        statuses: Counter[int] = Counter()
        operations = [operation for result in schema.get_all_operations() if (operation := result.ok()).path not in WITHOUT_INPUT[mode]]
        assert len(operations) >= 13
        for operation in operations:
            send_generated_requests(operation, mode, known, statuses)
        assert {200, 404, 422} <= set(statuses), statuses
        assert client.get("/healthz").status_code == 200


class KnownIds(NamedTuple):
    """What exists on the server, so that requests get further than to "there is no such thing"."""

    verification: str
    batch: str
    item: str

    def find(self, path: str) -> str:
        """The id for a route."""
        by_prefix = {"/v1/batches": self.batch, "/v1/memory": self.item, "/v1/tasks": TASK}
        return next((id for prefix, id in by_prefix.items() if path.startswith(prefix)), self.verification)


def send_generated_requests(operation: Any, mode: Any, known: KnownIds, statuses: Counter[int]) -> None:
    """Send generated requests of one operation. Every other one names things that exist, every fourth one has a generated token or none."""

    @settings(max_examples=MAX_EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(mode))
    def send(case: Any) -> None:
        number = statuses.total()
        if number % 2:
            name_existing_things(case, known)
        if isinstance(case.query, dict):
            case.query.pop("wait_s", None)
        if number % 4 != 2:
            case.headers = {name: text for name, text in (case.headers or {}).items() if name.lower() != "authorization"}
            case.headers["Authorization"] = "Bearer alice"
        response = case.call(timeout=60)
        statuses[response.status_code] += 1
        assert response.status_code < 500, f"{case.method} {case.path}: {response.status_code} {response.text[:300]}"
        if response.status_code >= 400:
            assert "application/problem+json" in response.headers["content-type"]

    send()


def name_existing_things(case: Any, known: KnownIds) -> None:
    """Replace generated ids, tasks and backends by those of the server; everything else stays as it was generated."""
    if case.path_parameters and "id" in case.path_parameters:
        case.path_parameters["id"] = known.find(case.path)
    body = case.body if isinstance(case.body, dict) else {}
    requests = body.get("verifications")
    for request in requests if isinstance(requests, list) else [body]:
        if isinstance(request, dict) and "backend" in request:
            request["backend"] = "cpp"
        if isinstance(request, dict) and isinstance(request.get("task"), str):
            request["task"] = TASK
