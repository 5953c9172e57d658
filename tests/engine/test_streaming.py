"""Streaming schedule: no task waits for another, no attempt is lost or repeated, and credit goes to the shown items."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from engine_parts import ArithmeticExecutor, EchoGenerator, make_engine, make_task

from evokernel.core.errors import InfraError
from evokernel.core.records import Context, Stage
from evokernel.engine import context_store


def make_streaming_engine(folder, budget=4, **parts):
    attempts = make_engine(folder, budget=budget, **parts)
    if attempts.run.config.schedule != "streaming":
        attempts.run.save_config(attempts.run.config.model_copy(update={"schedule": "streaming"}))
    return attempts


def ids(attempts):
    return sorted(attempt.id for attempt in attempts)


ALL_IDS = sorted(f"t/{name}/{n}" for name in ("relu", "gelu", "tanh", "sum", "max") for n in range(4))


def test_each_task_gets_its_budget(tmp_path):
    e = make_streaming_engine(tmp_path)
    attempts = list(e.make_attempts())
    assert ids(attempts) == ALL_IDS
    assert [attempt.id for attempt in e.run.attempts()] == [attempt.id for attempt in attempts]
    assert not list(tmp_path.rglob(context_store.CONTEXT_FILE)), "contexts are deleted when their attempts are in the journal"
    for name in {attempt.task for attempt in attempts}:
        assert [attempt.round for attempt in attempts if attempt.task == name] == [0, 1, 2, 3]


def test_tasks_do_not_wait_for_the_slowest_one(tmp_path):
    may_continue = threading.Event()

    class Slow(EchoGenerator):
        def write(self, state, context):
            if state.task.id == "t/relu":
                assert may_continue.wait(60), "the other tasks wait for this one"
            return super().write(state, context)

    e = make_streaming_engine(tmp_path, generator=Slow(), tasks=[make_task(name) for name in ("relu", "gelu", "tanh")])
    attempts = []
    for attempt in e.make_attempts():
        attempts.append(attempt)
        if len(attempts) == 8:
            may_continue.set()
    assert {attempt.task for attempt in attempts[:8]} == {"t/gelu", "t/tanh"}
    assert len(attempts) == 12


def test_concurrency_limit_and_one_attempt_per_task(tmp_path):
    in_flight, max_in_flight, guard = set(), [0], threading.Lock()

    class CountingGenerator(EchoGenerator):
        def write(self, state, context):
            with guard:
                assert state.task.id not in in_flight
                in_flight.add(state.task.id)
                max_in_flight[0] = max(max_in_flight[0], len(in_flight))
            time.sleep(0.01)
            with guard:
                in_flight.discard(state.task.id)
            return super().write(state, context)

    list(make_streaming_engine(tmp_path, generator=CountingGenerator(), concurrency=2).make_attempts())
    assert max_in_flight[0] == 2


@pytest.mark.parametrize("cut", [0, 1, 7, 13, 19])
def test_resumed_run_makes_only_missing_attempts(tmp_path, cut):
    first = make_streaming_engine(tmp_path)
    iterator = first.make_attempts()
    for _ in range(cut):
        next(iterator)
    first.stop.set()
    learned_count = cut + len(list(iterator))
    first.close()
    second = make_streaming_engine(tmp_path)
    attempts = list(second.make_attempts())
    assert ids(attempts) == ALL_IDS
    assert sorted(first.generator.calls + second.generator.calls) == ALL_IDS, "no reply was requested twice"
    assert learned_count >= cut


def test_stored_reply_keeps_its_context(tmp_path):
    class Dies:
        def submit(self, job):
            raise KeyboardInterrupt

        def close(self):
            pass

    first = make_streaming_engine(tmp_path, budget=1, executor=Dies(), tasks=[make_task("relu")])
    with pytest.raises(KeyboardInterrupt):
        list(first.make_attempts())
    first.close()
    (path,) = tmp_path.rglob(context_store.CONTEXT_FILE)
    stored_context = Context.model_validate_json(path.read_text())
    assert stored_context.items
    path.write_text(stored_context.model_copy(update={"items": stored_context.items[:1]}).model_dump_json())
    second = make_streaming_engine(tmp_path, budget=1, tasks=[make_task("relu")])
    (attempts,) = second.make_attempts()
    assert [ref.id for ref in attempts.shown_items] == [stored_context.items[0].item.id]
    assert second.generator.calls == []


def test_infrastructure_failure_costs_no_budget(tmp_path):
    e = make_streaming_engine(tmp_path, executor=ArithmeticExecutor({"t/gelu/1", "t/sum/0"}))
    attempts = list(e.make_attempts())
    assert ids(attempts) == ALL_IDS
    assert [attempt.round for attempt in attempts if attempt.task == "t/gelu"] == [0, 2, 3, 4]
    incidents = [json.loads(line) for line in e.run.incidents.read_text().splitlines()]
    assert sorted(one["task"] for one in incidents) == ["t/gelu", "t/sum"]
    assert all(attempt.stage in Stage for attempt in attempts)


SCRIPT = """
import sys
from pathlib import Path
from test_streaming import make_streaming_engine, EchoGenerator

class LoggingGenerator(EchoGenerator):
    def write(self, state, context):
        with open(Path(sys.argv[1]) / "requests", "a") as file:
            file.write(state.next_id + "\\n")
        return super().write(state, context)

print("ready", flush=True)
for attempt in make_streaming_engine(Path(sys.argv[1]), generator=LoggingGenerator()).make_attempts():
    print(attempt.id, flush=True)
"""


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_killed_run_loses_no_attempt(tmp_path):
    environment, random_source, kills = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, random.Random(1), 0
    for left in reversed(range(7)):
        run = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(random_source.randint(1, 9) if left else 99):
            run.stdout.readline()
        if left:
            run.send_signal(signal.SIGKILL)
        kills += run.wait() == -signal.SIGKILL
        run.stdout.close()
    assert kills >= 3
    attempts = [json.loads(line)["id"] for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    assert sorted(attempts) == ALL_IDS
    requests = (tmp_path / "requests").read_text().split()
    repeats = len(requests) - len(set(requests))
    assert set(requests) == set(ALL_IDS)
    assert repeats <= kills * 4, "at max_in_flight incidents was being written when it was killed is requests for repeats"


def test_repeated_infrastructure_failures_stop_the_run(tmp_path):
    class FailingGenerator(EchoGenerator):
        def write(self, state, context):
            raise InfraError("model service is down")

    with pytest.raises(InfraError, match="attempts in a row"):
        list(make_streaming_engine(tmp_path, generator=FailingGenerator()).make_attempts())
    assert not (tmp_path / "attempts.jsonl").exists()
