"""Tenants see nothing of each other, and every limit answers with the right status and a time to come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from service_servers import SAMPLES, request_body, sample_body, serve_in_thread, tenant, wait_for

from evokernel.core.errors import UserError
from evokernel.service.guard import RateLimiter
from evokernel.service.tenants import RELOAD_S, TokenFile, add_token, hash_token, read_tenants


def test_a_tenant_sees_only_its_own(shared_server):
    alice, bob = shared_server.client("alice"), shared_server.client("bob")
    mine = alice.post("/v1/verifications", json=request_body("int secret;"), params={"wait_s": 30}).json()
    batch = alice.post("/v1/batches", json={"verifications": [request_body("int b;")]}).json()
    job = f"verifications/{mine['id']}"
    for path in (job, f"{job}/events", f"{job}/profile", f"batches/{batch['id']}"):
        assert alice.get(f"/v1/{path}").status_code == 200
        answer = bob.get(f"/v1/{path}")
        assert answer.status_code == 404
        assert answer.content == bob.get(f"/v1/{path.replace(mine['id'], '0' * 24).replace(batch['id'], '0' * 24)}").content
    assert bob.delete(f"/v1/verifications/{mine['id']}").status_code == 404
    assert bob.get("/v1/verifications").json()["verifications"] == []
    assert bob.get("/v1/verifications", params={"after": mine["id"]}).status_code == 404


def test_outcomes_and_keys_are_not_shared_between_tenants(shared_server):
    key = {"idempotency-key": "same"}
    answers = [
        shared_server.client(name).post("/v1/verifications", json=request_body(), params={"wait_s": 30}, headers=key).json()
        for name in ("alice", "bob")
    ]
    assert answers[0]["id"] != answers[1]["id"]
    assert answers[1]["reused_from"] is None
    assert len(shared_server.executor.jobs) == 2
    assert shared_server.client("bob").post("/v1/verifications", json=request_body("int y;"), headers=key).status_code == 409


def test_a_request_without_a_valid_token_is_refused(shared_server):
    for token in ("", "mallory", "alicealice", hash_token("alice")):
        answer = shared_server.client(token).get("/v1/tasks")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
    assert shared_server.client().get("/healthz").json()["status"] == "ok"
    assert shared_server.client().get("/openapi.json").status_code == 200
    assert shared_server.client("alice").get("/metrics").status_code == 403


def test_other_sites_and_host_names_are_refused_without_tokens(server):
    client = server.client()
    assert client.get("/v1/tasks", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/v1/tasks", headers={"host": "evil.example"}).status_code == 403
    from_a_page = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    assert client.post("/v1/verifications", json=request_body(), headers=from_a_page).status_code == 403
    assert b"evokernel_requests_total" in client.get("/metrics").content


def test_a_full_queue_answers_429_or_503_with_a_time(tmp_path):
    tenants = {"alice": tenant("alice", max_queued=3), "bob": tenant("bob", max_queued=100)}
    with serve_in_thread(tmp_path, tenants, max_queued=5) as server:
        server.executor.is_holding = True
        alice, bob = server.client("alice"), server.client("bob")

        def send(client, n):
            return client.post("/v1/verifications", json=request_body(f"int x{n};"))

        answers = [send(alice, n) for n in range(4)]
        assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
        assert int(answers[3].headers["retry-after"]) >= 1
        answers = [send(bob, n) for n in range(3)]
        assert [answer.status_code for answer in answers] == [202, 202, 503]
        assert int(answers[2].headers["retry-after"]) >= 1
        batch = bob.post("/v1/batches", json={"verifications": [request_body("int a;"), request_body("int b;")]})
        assert batch.status_code == 503
        assert len(bob.get("/v1/verifications").json()["verifications"]) == 2
        server.executor.is_holding = False
        server.executor.complete_all()
        wait_for(lambda: not alice.get("/v1/verifications", params={"state": "queued"}).json()["verifications"])
        wait_for(lambda: send(alice, 9).status_code == 202)


def test_tenants_take_turns(tmp_path):
    with serve_in_thread(tmp_path, {name: tenant(name) for name in ("alice", "bob")}, slots=1) as server:
        server.executor.is_holding = True
        alice, bob = server.client("alice"), server.client("bob")
        for n in range(4):
            alice.post("/v1/verifications", json=request_body(f"int alice{n};"))
        bob.post("/v1/verifications", json=request_body("int bob;"))
        wait_for(lambda: server.executor.held)
        server.executor.is_holding = False
        server.executor.complete_all()
        wait_for(lambda: len(server.executor.jobs) == 5)
        order = ["bob" in job.candidate.files["kernel.cpp"] for job in server.executor.jobs]
        assert order == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("limits", "bodies", "status", "message"),
    [
        ({"max_request_bytes": 500}, [request_body("x" * 600)], 413, "larger than 500 bytes"),
        ({"max_kernel_bytes": 50}, [request_body("x" * 60)], 413, "50 bytes"),
        ({"max_batch": 1}, [request_body("a"), request_body("b")], 413, "may have 1"),
        ({"max_timeout_s": 5}, [request_body(timeout_s=6)], 422, "at most 5 s"),
    ],
)
def test_sizes_are_limited_by_tenant(tmp_path, limits, bodies, status, message):
    with serve_in_thread(tmp_path, {"alice": tenant("alice", **limits)}) as server:
        answer = server.client("alice").post("/v1/batches", json={"verifications": bodies})
        assert answer.status_code == status
        assert message in answer.json()["detail"]

        def chunks():
            yield b'{"verifications": [' + b" " * 300
            yield b" " * 300

        if "max_request_bytes" in limits:
            assert server.client("alice").post("/v1/batches", content=chunks()).status_code == 413


def test_requests_are_limited_by_tenant(tmp_path):
    with serve_in_thread(tmp_path, {"alice": tenant("alice", requests_per_minute=6), "bob": tenant("bob")}) as server:
        assert server.client("alice").get("/v1/tasks").status_code == 200
        answer = server.client("alice").get("/v1/tasks")
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 10
        assert server.client("bob").get("/v1/tasks").status_code == 200


def test_the_rate_is_steady_after_a_burst():
    limiter, alice = RateLimiter(), tenant("alice", requests_per_minute=60)
    assert [limiter.take(alice, 0.0) for _ in range(11)] == [0] * 10 + [1]
    assert [limiter.take(alice, 1.0), limiter.take(alice, 1.0)] == [0, 1]


def test_open_streams_are_limited(tmp_path):
    with serve_in_thread(tmp_path, {"alice": tenant("alice", max_streams=1)}) as server:
        server.executor.is_holding = True
        client = server.client("alice")
        id = client.post("/v1/verifications", json=request_body()).json()["id"]
        with client.stream("GET", f"/v1/verifications/{id}/events") as first:
            assert first.status_code == 200
            assert client.get(f"/v1/verifications/{id}/events").status_code == 429
        wait_for(lambda: not server.queue.progress.watchers)
        server.executor.is_holding = False
        server.executor.complete_all()
        assert client.get(f"/v1/verifications/{id}/events").status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"task": "/etc/passwd"}, 422, "has no task '/etc/passwd'"),
        ({"task": str(SAMPLES / "task.py")}, 422, "has no task"),
        ({"backend": "os:system"}, 422, "unknown backend"),
        ({"kernel": None}, 422, "missing: kernel or files"),
        ({"files": {"kernel.cpp": "int x;"}}, 422, "either 'kernel' or 'files'"),
        ({"kernel": None, "files": {"../../x.cpp": "int x;"}}, 422, "file names"),
        ({"kernel": " "}, 422, "is empty"),
        ({"task": None, "task_source": "import torch"}, 422, "takes no task_source"),
        ({"unknown": 1}, 422, "unknown"),
        ({"kernel": "\ud800"}, 422, "Unicode"),
        ({"timeout_s": -1}, 422, "timeout_s"),
    ],
)
def test_mistakes_get_one_line(server, change, status, message):
    body = {name: value for name, value in (request_body() | change).items() if value is not None}
    answer = server.client().post("/v1/verifications", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert message in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


def test_a_path_is_never_read_as_a_kernel(server):
    body = request_body(str(SAMPLES / "good" / "kernel.cpp"))
    server.client().post("/v1/verifications", json=body, params={"wait_s": 30})
    assert server.executor.jobs[0].candidate.files == {"kernel.cpp": body["kernel"]}


def test_a_body_that_is_not_json_and_unknown_routes(server):
    client = server.client()
    answer = client.post("/v1/verifications", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    for response, status in ((client.get("/v1/nothing"), 404), (client.put("/v1/tasks"), 405)):
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"


def test_a_reference_of_the_client_is_described_in_its_own_process(tmp_path):
    with serve_in_thread(tmp_path, allow_task_source=True) as server:
        body = sample_body("good") | {"task_source": (SAMPLES / "task.py").read_text()}
        del body["task"]
        verification = server.client().post("/v1/verifications", json=body, params={"wait_s": 60}).json()
        assert verification["state"] == "done"
        assert verification["task"].startswith("client/")
        bad = server.client().post("/v1/verifications", json=body | {"task_source": "import os\nos._exit(3)\nclass Model: pass"})
        assert bad.status_code == 422
        assert "\n" not in bad.json()["detail"]


def test_tokens_are_stored_as_hashes_and_can_be_taken_back(tmp_path: Path, monkeypatch):
    path = tmp_path / "tokens.toml"
    first, second = add_token(path, "alice"), add_token(path, "alice")
    assert first not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    tokens = TokenFile(path)
    assert {tokens.find_tenant(token).name for token in (first, second)} == {"alice"}
    assert tokens.find_tenant("") is None
    path.write_text(path.read_text().replace(hash_token(first), "0" * 64))
    tokens.checked_at -= RELOAD_S
    assert tokens.find_tenant(first) is None
    assert tokens.find_tenant(second) is not None
    path.write_text("[")
    tokens.checked_at -= RELOAD_S
    assert tokens.find_tenant(second) is not None, "a mistake in the file does not lock everybody out"


@pytest.mark.parametrize(
    "text", ["[tenants.Alice]", "[tenants.a]\nmax_queued = 0", "[tenants.a]\ntoken_sha256 = ['ü']", "x = 1", "tenants = 3", "["]
)
def test_a_wrong_token_file_is_one_line(tmp_path, text):
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_tenants(path)
    assert "\n" not in str(raised.value)
