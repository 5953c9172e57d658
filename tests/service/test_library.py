"""What clients can read: tasks, the memory bank of the operator, and metrics."""

from __future__ import annotations

from service_servers import request_body, serve_in_thread


def test_tasks_are_listed_and_described(server):
    client = server.client()
    page = client.get("/v1/tasks", params={"suite": "starter", "limit": 3, "offset": 1}).json()
    assert page["total"] == 16
    assert len(page["tasks"]) == 3
    assert all(task["id"].startswith("starter/") for task in page["tasks"])
    assert client.get("/v1/tasks", params={"suite": "samples"}).json()["tasks"][0]["id"] == "samples/task"
    record = client.get("/v1/tasks/samples/task", params={"backend": "cpp"}).json()
    assert "kernel(" in record["entry_point"]
    assert "held_out" not in record["sizes"]
    unknown = client.get("/v1/tasks/starter/sofmax")
    assert unknown.status_code == 404
    assert "starter/softmax" in unknown.json()["detail"]
    assert client.get("/v1/tasks/samples/task", params={"backend": "os:path"}).status_code == 422


def test_the_memory_bank_is_searched_read_only(tmp_path, bank):
    before = bank.read_bytes()
    with serve_in_thread(tmp_path, bank=bank) as server:
        client = server.client()
        items = client.get("/v1/memory/search", params={"q": "tile a product for the cache", "limit": 3, "kind": "practice"}).json()[
            "items"
        ]
        assert len(items) == 3
        assert {item["kind"] for item in items} == {"practice"}
        assert items[0]["similarity"] >= items[1]["similarity"]
        item = client.get(f"/v1/memory/items/{items[0]['id']}").json()
        assert item["text"] == items[0]["text"]
        assert client.get("/v1/memory/items/nothing").status_code == 404
        assert client.get("/v1/memory/search", params={"q": ""}).status_code == 422
    assert bank.read_bytes() == before


def test_a_server_without_a_bank_says_so(server):
    answer = server.client().get("/v1/memory/search", params={"q": "softmax"})
    assert answer.status_code == 404
    assert "--memory" in answer.json()["detail"]


def test_metrics_count_what_ended(server):
    client = server.client()
    for kernel in ("int x;", "int x;", "FAIL", "FAIL", "BROKEN"):
        client.post("/v1/verifications", json=request_body(kernel), params={"wait_s": 30})
    lines = client.get("/metrics").text.splitlines()
    assert 'evokernel_verifications_ended_total{reason="",state="done"} 2.0' in lines
    assert 'evokernel_verifications_ended_total{reason="forbidden",state="done"} 2.0' in lines
    assert 'evokernel_verifications_ended_total{reason="infrastructure",state="failed"} 1.0' in lines
    assert "evokernel_outcomes_reused_total 2.0" in lines
    assert 'evokernel_requests_total{method="POST",route="/v1/verifications",status="200"} 5.0' in lines
