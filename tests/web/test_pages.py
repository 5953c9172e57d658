"""Every view without a browser: what the server answers, escaped, and what it streams."""

import json
from urllib.parse import urlencode
from urllib.request import urlopen

import made_run
import pytest
from bank_parts import open_bank
from made_run import attempt, failed, passed
from test_browser_task import SCRIPT, kernel

from evokernel.core.records import ContextRef, MemoryItem, Reply, Stage


@pytest.fixture
def url(tmp_path, serve):
    task = made_run.task(f"relu{SCRIPT}", family=SCRIPT)
    shown = (ContextRef(id=SCRIPT, role="trace", q=0.0),)
    attempts = [
        attempt(task, 0, failed("check", SCRIPT, SCRIPT), candidate=kernel(SCRIPT), shown=shown, lesson=SCRIPT),
        attempt(task, 1, passed(3.0), candidate=kernel("int a;"), stage=Stage.REFINE, start=f"{task.id}/0"),
    ]
    run = made_run.write_run(tmp_path / "runs" / "one", [task], attempts, budget=9)
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
        ("task", {"run": "one", "task": TASK, "attempt": "1", "with": "0"}, "From attempt 0 to attempt 1"),
        ("graph", {"run": "one"}, "What was learned from what"),
        ("memory", {"q": "window.hit"}, "1 items"),
        ("memory", {"q": SCRIPT, "how": "meaning"}, "nearest first"),
        ("item", {"bank": "bank.db", "id": SCRIPT}, "Where it was shown"),
    ],
)
def test_every_view_answers_and_escapes(url, view, state, text):
    body = urlopen(f"{url}/{view}?{urlencode(state)}").read().decode()
    assert text in body
    for planted in ("<script>window", "<img src=x", "<svg onload"):
        assert planted not in body


def test_a_stream_tells_what_changed(url):
    with urlopen(f"{url}/live?view=run&run=one&mark=old") as stream:
        lines = iter(stream.readline, b"")
        (data,) = [next(lines) for _ in range(5)][-1:]
    sent = json.loads(data.removeprefix(b"data: "))
    assert {"head", "charts", "latest", "grid"} <= sent.keys()
    assert "<script>" not in "".join(sent.values())
