"""Without rounds: nobody waits for the slowest task, nothing is lost or made twice, and credit goes to what was shown."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from engine_parts import Oracle, Writer, engine, task

from evokernel.core.errors import InfraError
from evokernel.core.records import Context, Stage
from evokernel.engine import context_store


def stream(folder, budget=4, **parts):
    made = engine(folder, budget=budget, **parts)
    if made.run.config.schedule != "streaming":
        made.run.save_config(made.run.config.model_copy(update={"mode": "streaming"}))
    return made


def ids(attempts):
    return sorted(attempt.id for attempt in attempts)


EVERY = sorted(f"t/{name}/{n}" for name in ("relu", "gelu", "tanh", "sum", "max") for n in range(4))


def test_every_task_gets_its_budget(tmp_path):
    e = stream(tmp_path)
    made = list(e.attempts())
    assert ids(made) == EVERY
    assert [attempt.id for attempt in e.run.attempts()] == [attempt.id for attempt in made]
    assert not list(tmp_path.rglob(context_store.KEPT)), "a choice is kept only while it may be needed"
    for name in {attempt.task for attempt in made}:
        assert [attempt.round for attempt in made if attempt.task == name] == [0, 1, 2, 3]


def test_nobody_waits_for_the_slowest_task(tmp_path):
    going_on = threading.Event()

    class Slow(Writer):
        def write(self, state, context):
            if state.task.id == "t/relu":
                assert going_on.wait(60), "the other tasks wait for this one"
            return super().write(state, context)

    e = stream(tmp_path, generator=Slow(), tasks=[task(name) for name in ("relu", "gelu", "tanh")])
    made = []
    for attempt in e.attempts():
        made.append(attempt)
        if len(made) == 8:
            going_on.set()
    assert {attempt.task for attempt in made[:8]} == {"t/gelu", "t/tanh"}
    assert len(made) == 12


def test_no_more_than_concurrency_at_a_time_and_one_per_task(tmp_path):
    now, most, guard = set(), [0], threading.Lock()

    class Counting(Writer):
        def write(self, state, context):
            with guard:
                assert state.task.id not in now
                now.add(state.task.id)
                most[0] = max(most[0], len(now))
            time.sleep(0.01)
            with guard:
                now.discard(state.task.id)
            return super().write(state, context)

    list(stream(tmp_path, generator=Counting(), concurrency=2).attempts())
    assert most[0] == 2


@pytest.mark.parametrize("cut", [0, 1, 7, 13, 19])
def test_resumed_it_makes_only_what_is_missing(tmp_path, cut):
    first = stream(tmp_path)
    going = first.attempts()
    for _ in range(cut):
        next(going)
    first.stop.set()
    learned = cut + len(list(going))
    first.close()
    second = stream(tmp_path)
    made = list(second.attempts())
    assert ids(made) == EVERY
    assert sorted(first.generator.calls + second.generator.calls) == EVERY, "no reply was asked for twice"
    assert learned >= cut


def test_a_kept_reply_keeps_the_context_it_was_written_with(tmp_path):
    class Dies:
        def submit(self, job):
            raise KeyboardInterrupt

        def close(self):
            pass

    first = stream(tmp_path, budget=1, executor=Dies(), tasks=[task("relu")])
    with pytest.raises(KeyboardInterrupt):
        list(first.attempts())
    first.close()
    (path,) = tmp_path.rglob(context_store.KEPT)
    kept = Context.model_validate_json(path.read_text())
    assert kept.items
    path.write_text(kept.model_copy(update={"items": kept.items[:1]}).model_dump_json())
    second = stream(tmp_path, budget=1, tasks=[task("relu")])
    (made,) = second.attempts()
    assert [ref.id for ref in made.shown_items] == [kept.items[0].item.id]
    assert second.generator.calls == []


def test_trouble_earns_nothing_and_spends_nothing(tmp_path):
    e = stream(tmp_path, executor=Oracle({"t/gelu/1", "t/sum/0"}))
    made = list(e.attempts())
    assert ids(made) == EVERY
    assert [attempt.round for attempt in made if attempt.task == "t/gelu"] == [0, 2, 3, 4]
    what = [json.loads(line) for line in e.run.incidents.read_text().splitlines()]
    assert sorted(one["task"] for one in what) == ["t/gelu", "t/sum"]
    assert all(attempt.stage in Stage for attempt in made)


ASKED = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from test_streaming import stream, Writer

class Noted(Writer):
    def write(self, state, context):
        with open(Path(sys.argv[1]) / "asked", "a") as file:
            file.write(state.next_id + "\\n")
        return super().write(state, context)

print("ready", flush=True)
for attempt in stream(Path(sys.argv[1]), generator=Noted()).attempts():
    print(attempt.id, flush=True)
"""


def test_kill_9_loses_no_attempt(tmp_path):
    here, chance, kills = [str(Path(__file__).parent), *sys.path], random.Random(1), 0
    for left in reversed(range(7)):
        run = subprocess.Popen([sys.executable, "-c", ASKED, str(tmp_path), *here], stdout=subprocess.PIPE, text=True)
        for _ in range(chance.randint(1, 9) if left else 99):
            run.stdout.readline()
        if left:
            run.send_signal(signal.SIGKILL)
        kills += run.wait() == -signal.SIGKILL
        run.stdout.close()
    assert kills >= 3
    made = [json.loads(line)["id"] for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    assert sorted(made) == EVERY
    asked = (tmp_path / "asked").read_text().split()
    again = len(asked) - len(set(asked))
    assert set(asked) == set(EVERY)
    assert again <= kills * 4, "at most what was being written when it was killed is asked for again"


def test_nothing_but_trouble_stops_the_run(tmp_path):
    class Down(Writer):
        def write(self, state, context):
            raise InfraError("model service is down")

    with pytest.raises(InfraError, match="in a row came to nothing"):
        list(stream(tmp_path, generator=Down()).attempts())
    assert not (tmp_path / "attempts.jsonl").exists()
