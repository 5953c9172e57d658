"""Complete runs from the command line against a model service that fails in many ways: the run continues and its cost is correct."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from chat_server import Behaviour, ChatServer

from evokernel.core.plugins import make_plugin

pytestmark = pytest.mark.skipif(make_plugin("backend", "cpp").unavailable_reason() is not None, reason="no C++ compiler")

TASKS = "starter/gelu,starter/sum_rows"
KERNELS = {
    "starter/gelu": """extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) {
        const float cubic = x[i] + 0.044715f * x[i] * x[i] * x[i];
        out[i] = x[i] / (1 + std::exp(-1.5957691f * cubic));
    }
}""",
    "starter/sum_rows": """extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0]; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < x_shape[1]; ++j) sum += x[i * x_shape[1] + j];
        out[i] = (float)sum;
    }
}""",
}
PRICE_IN, PRICE_OUT = 3.0, 15.0
FAILURES = [
    Behaviour(status=429, headers={"Retry-After": "0.05"}),
    Behaviour(status=500, headers={"Retry-After": "0.05"}),
    Behaviour(stall_after=2, keep_alive=True),
    Behaviour(body=b"<html>gateway</html>", stream=False),
    Behaviour(cut_after=3, usage=(70, 7), usage_first=True),
    Behaviour(stall_after=10, stream=False),
]


def find_task(request):
    return re.search(r"starter/\w+", request["messages"][-1]["content"])[0]


class Service:
    """Fails the first request of each attempt while there are failures left, answers the next one, and adds up the billed tokens."""

    def __init__(self, failures=(), code=True):
        self.failures, self.code = list(failures), code
        self.billed = [0, 0]
        self.succeeded, self.failed = Counter(), Counter()
        self.lock = threading.Lock()

    def __call__(self, request, number):
        with self.lock:
            task = find_task(request)
            if self.failures and self.failed[task] == self.succeeded[task]:
                self.failed[task] += 1
                behaviour = self.failures.pop(0)
            else:
                self.succeeded[task] += 1
                # Every reply differs, the third has no code, and the second is not streamed although a stream was requested.
                answer = f"Version {number}.\n```cpp kernel.cpp\n// {number}\n{KERNELS[task]}\n```\n"
                text = answer if self.code and self.succeeded[task] != 3 else "I cannot."
                behaviour = Behaviour(text=text, usage=(1000 + number, 100 + number), stream=False if self.succeeded[task] == 2 else None)
            if behaviour.status == 200 and behaviour.body is None and (behaviour.usage_first or behaviour.stall_after is None):
                self.billed = [sum(pair) for pair in zip(self.billed, behaviour.usage)]
        return behaviour


def arguments(server, folder, **settings):
    table = {
        "clock": "synthetic",
        "protocol": "paper",
        "workers": 1,
        "concurrency": 2,
        "generator.model": "test",
        "generator.base_url": server.base_url,
        "generator.timeout_s": 0.4,
        "generator.retries": 8,
        "generator.price_in": PRICE_IN,
        "generator.price_out": PRICE_OUT,
        **settings,
    }
    sets = [word for key, value in table.items() for word in ("--set", f"{key}={value}")]
    return [
        "run",
        "--backend",
        "cpp",
        "--tasks",
        TASKS,
        "--budget",
        "3",
        "--generator",
        "llm",
        "--fresh",
        "--out",
        str(folder),
        "--json",
        *sets,
    ]


def start_process(words):
    command = [sys.executable, "-m", "evokernel.cli.main", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)


def run_to_end(words):
    process = start_process(words)
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 1), err  # 1: finished, and no kernel is correct
    return json.loads(out), err


def cost(billed):
    return pytest.approx((billed[0] * PRICE_IN + billed[1] * PRICE_OUT) / 1e6)


@pytest.mark.slow(one_in=5)
def test_run_survives_service_failures_and_counts_billed_tokens(tmp_path):
    service = Service(FAILURES)
    with ChatServer(service) as server:
        summary, _ = run_to_end(arguments(server, tmp_path / "run"))
    assert (summary["attempts"], summary["feasible"], summary["finished"]) == (6, 2, True)
    assert summary["failures"] == {"no_code": 2}
    assert [summary["input_tokens"], summary["output_tokens"]] == service.billed
    assert summary["cost"] == cost(service.billed)
    assert len(server.requests) == 6 + len(FAILURES)
    rows = [json.loads(line) for line in (tmp_path / "run" / "calls.jsonl").read_text().splitlines()]
    assert Counter(row["ok"] for row in rows) == {True: 6, False: len(FAILURES)}
    assert not (tmp_path / "run" / "incidents.jsonl").exists()


@pytest.mark.slow
def test_no_reply_is_paid_twice_after_kill(tmp_path):
    """Killed while the second round waits for its replies: earlier requests are not sent again."""
    service, release = Service(code=False), threading.Event()

    def script(request, number):
        return Behaviour(wait_for=release) if number in (2, 3) else service(request, number)

    with ChatServer(script) as server:
        process = start_process(arguments(server, tmp_path / "run", **{"generator.timeout_s": 60}))
        while len(server.requests) < 4:
            assert process.poll() is None, process.stderr.read()
            release.wait(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        release.set()
        summary, _ = run_to_end(["resume", str(tmp_path / "run"), "--json"])
    assert (summary["attempts"], summary["finished"]) == (6, True)
    assert len(server.requests) == 6 + 2, "only the two pending requests are sent again"
    assert [summary["input_tokens"], summary["output_tokens"]] == service.billed


@pytest.mark.slow
def test_spent_budget_stops_the_run_and_a_larger_budget_resumes_it(tmp_path):
    service = Service(code=False)
    with ChatServer(service) as server:
        summary, err = run_to_end(arguments(server, tmp_path / "run", **{"generator.budget_usd": 0.008}))
        assert (summary["attempts"], summary["finished"], len(server.requests)) == (2, False, 2)
        assert "Stopped (the budget is spent: " in err
        assert f"evokernel resume {tmp_path / 'run'}" in err
        more = 0.012  # less than two rounds cost, so what was spent before the resume must have been counted
        summary, _ = run_to_end(["resume", str(tmp_path / "run"), "--json", "--set", f"generator.budget_usd={more}"])
    assert (summary["attempts"], summary["finished"], len(server.requests)) == (4, False, 4)
    assert [summary["input_tokens"], summary["output_tokens"]] == service.billed
    assert summary["cost"] == cost(service.billed)


@pytest.mark.slow
def test_spent_token_budget_stops_the_run(tmp_path):
    service = Service(code=False)
    with ChatServer(service) as server:
        summary, err = run_to_end(arguments(server, tmp_path / "run", **{"generator.budget_tokens": 2000}))
    assert (summary["attempts"], summary["finished"], len(server.requests)) == (2, False, 2)
    assert "Stopped (the budget is spent: 2202 of 2000 tokens" in err


@pytest.mark.slow
def test_billed_but_incomplete_reply_is_counted_once(tmp_path):
    """A reply breaks off after its usage was reported, and there are no retries: the task loses a round, and the cost still counts."""
    service = Service([Behaviour(cut_after=3, usage=(70, 7), usage_first=True)], code=False)
    with ChatServer(service) as server:
        summary, _ = run_to_end(arguments(server, tmp_path / "run", **{"generator.retries": 0}))
    assert summary["attempts"] == 6
    assert (Path(summary["folder"]) / "incidents.jsonl").read_text().count("\n") == 1
    assert [summary["input_tokens"], summary["output_tokens"]] == service.billed
    assert summary["cost"] == cost(service.billed)
