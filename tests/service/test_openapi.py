"""OpenAPI describes every route, and generated requests find no server error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from service_servers import request_body, serve_in_thread

schemathesis = pytest.importorskip("schemathesis")

MAX_EXAMPLES = 12


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


def test_generated_requests_find_no_server_error(tmp_path: Path):
    with serve_in_thread(tmp_path) as server:
        known = server.client().post("/v1/verifications", json=request_body(), params={"wait_s": 30}).json()["id"]
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        statuses: Counter[int] = Counter()
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) >= 14
        for operation in operations:
            send_generated_requests(operation, known, statuses)
        assert {200, 404, 422} <= set(statuses)
        assert server.client().get("/healthz").status_code == 200


def send_generated_requests(operation: Any, known: str, statuses: Counter[int]) -> None:
    """Send generated requests of one operation, every other one about a verification that exists."""

    @settings(max_examples=MAX_EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        if case.path_parameters and "id" in case.path_parameters and statuses.total() % 2:
            case.path_parameters["id"] = known
        if case.query:
            case.query.pop("wait_s", None)
        response = case.call(timeout=60)
        statuses[response.status_code] += 1
        assert response.status_code < 500, f"{case.method} {case.path}: {response.status_code} {response.text[:300]}"
        if response.status_code >= 400:
            assert "application/problem+json" in response.headers["content-type"]

    send()
