"""Ten thousand attempts in a real browser: the page stays small and live."""

import sample_run
from sample_run import failed_outcome, make_attempt, passed_outcome

from evokernel.core.records import Stage

TASKS, ROUNDS = 125, 80


def journal_lines(tasks):
    """Journal lines round by round, from two patterns: their content does not matter here."""
    correct = make_attempt(tasks[0], 0, passed_outcome(100.0), stage=Stage.REFINE).model_dump_json()
    failure = make_attempt(tasks[0], 0, failed_outcome("check", "mismatch")).model_dump_json()
    for number in range(ROUNDS):
        for index, task in enumerate(tasks):
            line = correct.replace("100.0,", f"{100.0 - number},") if (number + index) % 3 == 0 else failure
            line = line.replace('"made/op0/0"', f'"{task.id}/{number}"').replace('"made/op0"', f'"{task.id}"')
            yield line.replace('"round":0', f'"round":{number}') + "\n"


def test_page_of_ten_thousand_attempts_is_small_and_live(tmp_path, serve, page):
    tasks = [sample_run.make_task(f"op{number}") for number in range(TASKS)]
    run = sample_run.write_run(tmp_path / "runs" / "big", tasks, [], budget=ROUNDS + 1)
    run.journal.path.write_text("".join(journal_lines(tasks)))
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/run?run=big")
    assert f"{TASKS * ROUNDS} of" in page.inner_text("#head")
    assert page.locator("#grid .cell").count() == 120
    assert len(page.content()) < 500_000
    page.click("a[rel=next]")
    page.wait_for_url("**page=2**")
    assert page.locator("#grid .cell").count() == 5
    page.wait_for_selector("#live-state.on")
    run.journal.append(make_attempt(tasks[-1], ROUNDS, passed_outcome(1.0)))
    page.wait_for_selector(f"#latest >> text=made/op{TASKS - 1} attempt {ROUNDS + 1}")
    page.goto(f"{url}/task?run=big&task=made/op3")
    assert page.locator(".tree a").count() == ROUNDS
    assert len(page.content()) < 500_000
