"""Ten thousand attempts in a real browser: a page of bounded size, and still live."""

import made_run
from made_run import attempt, failed, passed

from evokernel.core.records import Stage

TASKS, ROUNDS = 125, 80


def lines(tasks):
    """Round by round, as a run writes them: from a few patterns, since what is in a line does not matter here."""
    right = attempt(tasks[0], 0, passed(100.0), stage=Stage.REFINE).model_dump_json()
    wrong = attempt(tasks[0], 0, failed("check", "mismatch")).model_dump_json()
    for number in range(ROUNDS):
        for place, task in enumerate(tasks):
            line = right.replace("100.0,", f"{100.0 - number},") if (number + place) % 3 == 0 else wrong
            line = line.replace('"made/op0/0"', f'"{task.id}/{number}"').replace('"made/op0"', f'"{task.id}"')
            yield line.replace('"round":0', f'"round":{number}') + "\n"


def test_ten_thousand_attempts(tmp_path, serve, page):
    tasks = [made_run.task(f"op{number}") for number in range(TASKS)]
    run = made_run.write_run(tmp_path / "runs" / "big", tasks, [], budget=ROUNDS + 1)
    run.journal.path.write_text("".join(lines(tasks)))
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/run?run=big")
    assert f"{TASKS * ROUNDS} of" in page.inner_text("#head")
    assert page.locator("#grid .cell").count() == 120
    assert len(page.content()) < 500_000
    page.click("text=next")
    page.wait_for_url("**page=2**")
    assert page.locator("#grid .cell").count() == 5
    page.wait_for_selector("#live-state.on")
    run.journal.append(attempt(tasks[-1], ROUNDS, passed(1.0)))
    page.wait_for_selector(f"#latest >> text=made/op{TASKS - 1}/{ROUNDS}")
    page.goto(f"{url}/task?run=big&task=made/op3")
    assert page.locator(".tree a").count() == ROUNDS
    assert len(page.content()) < 500_000
