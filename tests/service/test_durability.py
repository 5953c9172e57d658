"""Accepted verifications survive kill -9 of the server and of a worker, and a signal lets running ones end. Real kernels, real workers."""

from __future__ import annotations

import os
import signal

import pytest
from service_servers import ServerProcess, request_body, sample_body, serve_in_thread, wait_for

from evokernel.core.errors import UserError
from evokernel.service.journal import MAX_STARTS, Ending, JobJournal, Limits, NewJob

SAMPLES = ("good", "mismatch-formula", "forbidden-exit", "compile_error-syntax")
EXPECTED = {"good": None, "mismatch-formula": "mismatch", "forbidden-exit": "forbidden", "compile_error-syntax": "compile_error"}


def submit(server: ServerProcess, name: str) -> str:
    answer = server.client.post("/v1/verifications", json=sample_body(name))
    assert answer.status_code == 202
    return str(answer.json()["id"])


def read(server: ServerProcess, id: str, wait_s: float = 0) -> dict:
    return server.client.get(f"/v1/verifications/{id}", params={"wait_s": wait_s}).json()


def test_killed_server_and_worker_lose_nothing(server_process):
    """Every accepted verification ends once, with the outcome that its kernel deserves."""
    server = server_process
    ids = {name: submit(server, name) for name in SAMPLES}
    assert read(server, ids["good"], 60)["state"] == "done"
    [worker] = wait_for(server.worker_pids)
    os.kill(worker, signal.SIGKILL)
    assert read(server, ids["mismatch-formula"], 120)["result"]["reason"] == "mismatch"
    server.process.kill()
    server.process.wait()
    before = JobJournal(server.folder)
    kept = {job.id: job for job in before.select("1", ())}
    before.close()
    assert set(kept) == set(ids.values()), "accepted, so on disk"
    server.start()
    ended = {name: read(server, id, 120) for name, id in ids.items()}
    assert {one["state"] for one in ended.values()} == {"done"}
    assert {name: ended[name]["result"]["reason"] for name in EXPECTED} == EXPECTED
    assert read(server, ids["good"])["finished_at"] == kept[ids["good"]].finished_at, "a result is stored once"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0


def test_sigterm_finishes_what_runs_and_keeps_what_is_queued(server_process):
    server = server_process
    ids = [submit(server, name) for name in (*SAMPLES, "good-branchless")]
    wait_for(lambda: read(server, ids[0])["state"] == "running")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(120) == 0
    journal = JobJournal(server.folder)
    states = [journal.find_job(id).state for id in ids]
    recovered = journal.recovered
    journal.close()
    assert states[0] == "done"
    assert states[-1] == "queued"
    assert "running" not in states
    assert recovered == 0


def test_a_draining_server_accepts_nothing_and_still_answers(tmp_path):
    with serve_in_thread(tmp_path) as server:
        server.executor.is_holding = True
        client, ended = server.client(), []
        id = client.post("/v1/verifications", json=request_body()).json()["id"]
        wait_for(lambda: server.executor.held)
        server.queue.drain(lambda: ended.append(True))
        refusal = client.post("/v1/verifications", json=request_body("int y;"))
        assert refusal.status_code == 503
        assert "retry-after" in refusal.headers
        assert client.get("/healthz").status_code == 503
        assert not ended
        server.executor.complete_all()
        wait_for(lambda: ended)
        assert client.get(f"/v1/verifications/{id}").json()["state"] == "done"


NEW = NewJob("{}", "f", "t", "", "cpp", "c")


def test_a_verification_ends_once(tmp_path):
    journal = JobJournal(tmp_path)
    [id] = journal.accept("a", [NEW], Limits(5, 5), key="", body="", is_batch=False).ids
    assert not journal.finish(id, Ending("done", "early"))
    assert journal.mark_running(id)
    assert not journal.mark_running(id)
    assert not journal.cancel(id, "a")
    assert journal.finish(id, Ending("done", "first"))
    assert not journal.finish(id, Ending("failed", error="second"))
    assert journal.find_job(id).result == "first"
    journal.close()


def test_a_verification_that_stops_the_server_again_and_again_is_given_up(tmp_path):
    journal = JobJournal(tmp_path)
    [id] = journal.accept("a", [NEW], Limits(5, 5), key="", body="", is_batch=False).ids
    for _ in range(MAX_STARTS):
        assert journal.mark_running(id)
        journal.close()
        journal = JobJournal(tmp_path)
    assert journal.find_job(id).state == "failed"
    assert str(MAX_STARTS) in journal.find_job(id).error
    assert journal.delete_older(1) == 0
    assert journal.delete_older(-1) == 1
    journal.close()


def test_the_oldest_results_of_a_tenant_make_room(tmp_path):
    journal = JobJournal(tmp_path)
    large = NEW._replace(request="x" * 100)
    ids = [journal.accept("a", [large], Limits(9, 9), key="", body="", is_batch=False).ids[0] for _ in range(4)]
    [other] = journal.accept("b", [large], Limits(9, 9), key="", body="", is_batch=False).ids
    for id in (ids[0], ids[1], ids[3], other):
        journal.mark_running(id)
        journal.finish(id, Ending("done", "y" * 100))
    assert journal.delete_oldest(700) == 0
    assert journal.delete_oldest(400) == 2
    assert [journal.find_job(id) is None for id in (*ids, other)] == [True, True, False, False, False]
    assert journal.delete_oldest(0) == 2
    assert journal.find_job(ids[2]).state == "queued", "what has not ended is never deleted"
    journal.close()


def test_two_servers_cannot_share_a_folder(tmp_path):
    journal = JobJournal(tmp_path)
    with pytest.raises(UserError, match="another server uses"):
        JobJournal(tmp_path)
    journal.close()
    journal = JobJournal(tmp_path)
    journal.connection.execute("PRAGMA user_version = 99")
    journal.close()
    with pytest.raises(UserError, match="another version"):
        JobJournal(tmp_path)
