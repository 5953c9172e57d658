"""Every page without a browser: responses, escaping and the event stream."""

import json
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import sample_run
from bank_parts import open_bank
from sample_run import failed_outcome, make_attempt, passed_outcome
from test_browser_task import SCRIPT, kernel

from evokernel.core.records import ContextRef, MemoryItem, Reply, Stage, Step


@pytest.fixture
def url(tmp_path, serve):
    task = sample_run.make_task(f"relu{SCRIPT}", family=SCRIPT)
    shown_items = (ContextRef(id=SCRIPT, role="trace", q=0.2, reasons={"similarity": 0.31, "own_record": -0.11, SCRIPT: 0.0}),)
    steps = (Step(name="plan", text=f"the chosen plan {SCRIPT}", cause="launch", gain_us=3.0, alternatives=(SCRIPT,)),)
    attempts = [
        make_attempt(task, 0, failed_outcome("check", SCRIPT, SCRIPT), candidate=kernel(SCRIPT), shown_items=shown_items, lesson=SCRIPT),
        make_attempt(task, 1, passed_outcome(3.0), candidate=kernel("int a;"), stage=Stage.REFINE, start_point=f"{task.id}/0", steps=steps),
    ]
    run = sample_run.write_run(tmp_path / "runs" / "one", [task], attempts, budget=9)
    run.store_reply("plain", "reply", Reply(candidate=kernel(""), prompt=SCRIPT, text=SCRIPT))
    with open_bank(tmp_path / "bank.db", "made-run") as bank:
        bank.add([MemoryItem(id=SCRIPT, kind="trace", backend="cpp", title=SCRIPT, text=SCRIPT, code=SCRIPT, task=task.id)])
    return serve([tmp_path / "runs"], [tmp_path / "bank.db"]).url


TASK = f"made/relu{SCRIPT}"


@pytest.mark.parametrize(
    ("view", "state", "text"),
    [
        ("", {"text": "", "by": "reward"}, "Runs"),
        ("run", {"run": "one"}, "2 of 9 attempts"),
        ("task", {"run": "one", "task": TASK, "attempt": "0"}, "Lineage"),
        ("task", {"run": "one", "task": TASK, "attempt": "1", "with": "0"}, "Changes from attempt 1 to attempt 2"),
        ("task", {"run": "one", "task": TASK, "attempt": "1"}, "the chosen plan"),
        ("task", {"run": "one", "task": TASK, "attempt": "0"}, "+0.31 from a similar operator, -0.11 what it earned beyond that"),
        ("graph", {"run": "one"}, "which operators helped to solve which"),
        ("memory", {"q": "window.hit"}, "1 item, highest value first"),
        ("memory", {"q": SCRIPT, "how": "meaning"}, "most similar first"),
        ("glossary", {}, "memory bank"),
        ("item", {"bank": "bank.db", "id": SCRIPT}, "Attempts that were shown this item"),
    ],
)
def test_every_page_answers_and_escapes(url, view, state, text):
    body = urlopen(f"{url}/{view}?{urlencode(state)}").read().decode()
    assert text in body
    for planted in ("<script>window", "<img src=x", "<svg onload"):
        assert planted not in body


def test_stream_sends_changed_parts(url):
    with urlopen(f"{url}/live?view=run&run=one&mark=old") as stream:
        lines = iter(stream.readline, b"")
        (data,) = [next(lines) for _ in range(5)][-1:]
    parts = json.loads(data.removeprefix(b"data: "))
    assert {"head", "charts", "latest", "grid"} <= parts.keys()
    assert "<script>" not in "".join(parts.values())
