"""Verifications over HTTP: accepted, waited for, followed, reused, cancelled, in batches."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from repository import ROOT
from service_servers import read_stream, request_body, wait_for


def submit(server: Any, *, token: str = "", wait_s: float = 0, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return server.client(token).post("/v1/verifications", params={"wait_s": wait_s}, json=request_body(**fields), headers=headers)


def test_a_verification_is_accepted_then_done(server):
    answer = submit(server, label="mine")
    assert answer.status_code == 202
    id = answer.json()["id"]
    assert answer.headers["location"] == f"/v1/verifications/{id}"
    verification = server.client().get(f"/v1/verifications/{id}", params={"wait_s": 30}).json()
    assert (verification["state"], verification["label"], verification["task"]) == ("done", "mine", "samples/task")
    result = verification["result"]
    assert result["feasible"]
    assert result["speedup"] == 2.0
    assert [gate["gate"] for gate in result["gates"]] == ["screen", "time"]
    assert result["outcome"]["baseline_us"] == {"eager": [20.0, 20.0]}


def test_waiting_returns_the_result_or_the_state_after_the_limit(server):
    answer = submit(server, wait_s=30, kernel="FAIL")
    assert answer.status_code == 200
    assert answer.json()["result"]["reason"] == "forbidden"
    server.executor.is_holding = True
    started = time.monotonic()
    answer = submit(server, wait_s=0.3, kernel="int slow;")
    assert answer.status_code == 202
    assert answer.json()["state"] == "running"
    assert time.monotonic() - started >= 0.3


def test_a_verification_that_no_worker_completes_is_failed_in_one_line(server):
    verification = submit(server, wait_s=30, kernel="BROKEN").json()
    assert (verification["state"], verification["error"], verification["result"]) == ("failed", "no worker answers", None)


def test_identical_requests_of_a_tenant_share_an_outcome_unless_it_declines(server):
    first = submit(server, wait_s=30).json()
    second = submit(server, wait_s=30, label="again").json()
    assert second["reused_from"] == first["id"]
    assert second["result"] == first["result"]
    third = submit(server, wait_s=30, reuse_outcome=False).json()
    assert third["reused_from"] is None
    assert len(server.executor.jobs) == 2
    assert all(job.ignore_cache for job in server.executor.jobs)
    assert len({job.seed for job in server.executor.jobs}) == 2, "inputs must not be predictable"


def test_events_follow_the_gates_while_it_runs(server):
    server.executor.is_holding = True
    id = submit(server).json()["id"]
    wait_for(lambda: server.executor.held)
    events: list[Any] = []
    reader = threading.Thread(target=lambda: events.extend(read_stream(server.client(), id)))
    reader.start()
    wait_for(lambda: server.queue.progress.watchers)
    server.executor.complete_all()
    reader.join(30)
    assert events[:2] == [("state", {"state": "queued"}), ("state", {"state": "running"})]
    assert ("gate", {"gate": "screen", "state": "started"}) in events
    assert events[-1] == ("end", {"state": "done", "error": None})
    replay = read_stream(server.client(), id)
    assert [name for name, _ in replay] == ["state", "state", "gate", "gate", "gate", "gate", "end"]
    assert read_stream(server.client(), id, **{"last-event-id": str(len(replay) - 1)}) == replay[-1:]


def test_only_a_queued_verification_can_be_cancelled(server):
    server.executor.is_holding = True
    ids = [submit(server, kernel=f"int x{n};").json()["id"] for n in range(4)]
    client = server.client()
    wait_for(lambda: len(server.executor.held) == 2)
    one_ahead = client.get(f"/v1/verifications/{ids[1]}").json()
    assert (one_ahead["state"], one_ahead["started_at"]) == ("queued", None), "the executor has it, but no worker"
    assert client.delete(f"/v1/verifications/{ids[1]}").json()["state"] == "cancelled"
    assert client.delete(f"/v1/verifications/{ids[3]}").json()["state"] == "cancelled"
    assert client.delete(f"/v1/verifications/{ids[3]}").status_code == 200
    refusal = client.delete(f"/v1/verifications/{ids[0]}")
    assert refusal.status_code == 409
    assert "is running" in refusal.json()["detail"]
    server.executor.is_holding = False
    server.executor.complete_all()
    states = [client.get(f"/v1/verifications/{id}", params={"wait_s": 30}).json()["state"] for id in ids]
    assert states == ["done", "cancelled", "done", "cancelled"]
    assert [list(job.candidate.files.values()) for job in server.executor.jobs] == [["int x0;"], ["int x1;"], ["int x2;"]]
    assert not server.queue.dispatcher.futures
    assert not server.queue.dispatcher.begun


def test_a_worker_that_began_a_cancelled_verification_changes_nothing(server):
    """A worker takes it just before the cancellation, and reports a gate and an outcome just after it."""
    server.executor.is_holding = True
    submit(server, kernel="int first;")
    id = submit(server, kernel="int second;").json()["id"]
    wait_for(lambda: len(server.executor.held) == 2)
    assert server.executor.held[1][1].set_running_or_notify_cancel()
    assert server.client().delete(f"/v1/verifications/{id}").json()["state"] == "cancelled"
    server.executor.complete_all()
    wait_for(lambda: not server.queue.dispatcher.futures)
    verification = server.client().get(f"/v1/verifications/{id}").json()
    assert (verification["state"], verification["started_at"], verification["result"]) == ("cancelled", None, None)
    assert not server.queue.progress.events


def test_the_commands_of_the_page_work(server, tmp_path):
    page = (ROOT / "docs" / "service.md").read_text()
    verify, batch, follow = (block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in block)
    (tmp_path / "kernel.cpp").write_text("int x;\n")
    verification = json.loads(run_script(verify, server, tmp_path))
    assert (verification["state"], verification["task"]) == ("done", "starter/softmax")
    assert len(json.loads(run_script(batch, server, tmp_path))["verifications"]) == 2
    events = run_script(follow.replace("/ID/", f"/{verification['id']}/"), server, tmp_path)
    example = next(block for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if "event:" in block)
    assert events.startswith(example.partition("…")[0])


def run_script(script: str, server: Any, folder: Path) -> str:
    """The output of commands that the page gives, with the address of the test's server."""
    script = script.replace("localhost:8766", server.url.removeprefix("http://"))
    return subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_body_without_its_type_and_missing_fields_are_named(server):
    client = server.client()
    form = {"content-type": "application/x-www-form-urlencoded"}
    untyped = client.post("/v1/verifications", content=json.dumps(request_body()), headers=form)
    assert untyped.status_code == 415
    assert "Content-Type: application/json" in untyped.json()["detail"]
    empty = client.post("/v1/verifications", json={})
    assert (empty.status_code, empty.json()["detail"]) == (422, "body: missing: task or task_source, backend, kernel or files")
    wrong = client.post("/v1/verifications", json=request_body(size="huge", timeout_s=-1)).json()["detail"]
    assert "size: " in wrong
    assert "timeout_s: " in wrong


def test_a_batch_is_accepted_completely_or_not_at_all(server):
    client = server.client()
    kernels = ["int a;", "FAIL", "BROKEN"]
    answer = client.post("/v1/batches", json={"verifications": [request_body(kernel) for kernel in kernels]})
    assert answer.status_code == 202
    batch = answer.json()
    assert len(batch["verifications"]) == 3
    states = wait_for(lambda: (s := client.get(f"/v1/batches/{batch['id']}").json()["states"]) == {"done": 2, "failed": 1} and s)
    assert sum(states.values()) == 3
    bad = client.post("/v1/batches", json={"verifications": [request_body(), request_body(task="starter/nope")]})
    assert bad.status_code == 422
    assert "starter/nope" in bad.json()["detail"]
    listed = client.get("/v1/verifications", params={"limit": 2}).json()
    assert [one["id"] for one in listed["verifications"]] == batch["verifications"][:0:-1]
    rest = client.get("/v1/verifications", params={"after": listed["next"]}).json()
    assert [one["id"] for one in rest["verifications"]] == batch["verifications"][:1]


def test_a_key_makes_a_request_idempotent(server):
    key = {"idempotency-key": "k1"}
    first, second = (submit(server, headers=key) for _ in range(2))
    assert second.json()["id"] == first.json()["id"]
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    other = submit(server, headers=key, kernel="int y;")
    assert other.status_code == 409
    batch = {"verifications": [request_body("int z;"), request_body("int w;")]}
    batches = [server.client().post("/v1/batches", json=batch, headers={"idempotency-key": "k2"}).json() for _ in range(2)]
    assert batches[0]["id"] == batches[1]["id"]
    assert batches[0]["verifications"] == batches[1]["verifications"]


def test_eight_clients_with_one_key_make_one_verification(server):
    answers: list[Any] = []
    body = request_body("int raced;")
    server.client()

    def send() -> None:
        answers.append(server.client().post("/v1/verifications", json=body, headers={"idempotency-key": "race"}))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_profile_names_causes_and_lines(server):
    id = submit(server, wait_s=30).json()["id"]
    profile = server.client().get(f"/v1/verifications/{id}/profile").json()
    assert profile["bottleneck"] == "memory"
    assert profile["opportunities"][0]["cause"] == "excess_traffic"
    assert profile["lines"] == [{"file": "kernel", "line": 1, "text": "int x;", "gain_us": 4.0, "cause": "excess_traffic"}]
    server.executor.is_holding = True
    waiting = submit(server, kernel="int y;").json()["id"]
    assert server.client().get(f"/v1/verifications/{waiting}/profile").status_code == 409
