"""No page is cut off at the width of a laptop or a phone, with long names and with everything unfolded."""

import os
from urllib.parse import urlencode

import pytest
import sample_run
from bank_parts import open_bank
from sample_run import failed_outcome, make_attempt, make_task, make_usage, passed_outcome

from evokernel.core.records import Candidate, ContextRef, MemoryItem, Stage
from evokernel.core.sessions import SessionEnd, record_session_end, record_session_start

LONG = "a_rather_long_name_of_an_operator_that_does_not_fit_into_a_column"
PAGES = {
    "runs": ("", {}),
    "run": ("run", {"run": "one"}),
    "failed": ("run", {"run": "failed"}),
    "task": ("task", {"run": "one", "task": f"made/{LONG}", "attempt": "1"}),
    "compare": ("compare", {"runs": "one,failed"}),
    "memory": ("memory", {}),
    "item": ("item", {"bank": "bank.db", "id": "cpp/tip"}),
    "graph": ("graph", {"run": "one"}),
    "glossary": ("glossary", {}),
}
CUT_OFF = """() => [...document.querySelectorAll('main *')].filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth
    && getComputedStyle(one).overflowX !== 'visible' && !one.matches('.unseen, .tree-frame, .stack thead, .stack thead *, option, select'))
    .map(one => one.getAttribute('aria-label') || one.className || one.tagName)"""


@pytest.fixture
def url(tmp_path, serve):
    tasks = [make_task(LONG), make_task("relu")]
    code = Candidate(backend="cpp", files={"kernel.cpp": f"int {LONG}_{LONG}({LONG}, {LONG}, {LONG}, {LONG});\n" * 3})
    refs = (ContextRef(id="cpp/tip", role="practice", q=0.25), ContextRef(id=f"made-run:made/{LONG}/0", role="trace", q=-0.5))
    attempts = [
        make_attempt(tasks[0], 0, passed_outcome(100.0), candidate=code),
        make_attempt(tasks[0], 1, passed_outcome(50.0), candidate=code, stage=Stage.REFINE, start_point=f"made/{LONG}/0", shown_items=refs),
        make_attempt(tasks[1], 0, failed_outcome("check", "mismatch", f"{LONG} " * 9), usage=make_usage(None)),
    ]
    sample_run.write_run(tmp_path / "runs" / "one", tasks, attempts, budget=2, id=f"20260102-{LONG}")
    failed = sample_run.write_run(tmp_path / "runs" / "failed", tasks, [])
    record_session_start(failed.folder, 1000.0)
    record_session_end(failed.folder, 1060.0, SessionEnd.FAILED, f"http://{LONG}.{LONG}/v1 refused the request (HTTP 401)")
    failed.record_incident(tasks[0].id, 0, f"HTTP 500 from {LONG}{LONG}{LONG}", 1010.0)
    with open_bank(tmp_path / "runs" / "bank.db", "made-run") as bank:
        text = f"# A tip\n\n`{LONG}{LONG}`\n\n```cpp\n{LONG * 4}\n```\n\n| {LONG} | {LONG} |\n|---|---|\n| 1 | 2 |\n"
        bank.add([MemoryItem(id="cpp/tip", kind="practice", backend="cpp", title=f"Tip {LONG}", text=text)])
        bank.update(f"made/{LONG}/1", Stage.REFINE, {"cpp/tip": 0.5}, 0.5)
    return serve([tmp_path / "runs"], [tmp_path / "runs" / "bank.db"]).url


@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_is_cut_off(url, browser, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, is_mobile=width < 500)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#row-one progress")
    page.wait_for_selector("#row-failed progress")
    for name, (view, state) in PAGES.items():
        page.goto(f"{url}/{view}?{urlencode(state)}")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        if folder := os.environ.get("EVOKERNEL_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/{name}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, name
        assert page.evaluate(CUT_OFF) == [], name
    context.close()
