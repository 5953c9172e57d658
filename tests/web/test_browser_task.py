"""The page Task in a real browser: lineage, diffs, gates, profile, prompts; hostile text stays text."""

import os

import pytest
import sample_run
from sample_run import failed_outcome, make_attempt, passed_outcome

from evokernel.core.records import Candidate, ContextRef, Opportunity, Profile, Reply, Stage
from evokernel.web import diff, lineage

SCRIPT = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'></pre><svg onload='window.hit = 3'>"
FIGURES = {"ceiling_gbs": 20.0, "ceiling_gflops": 40.0, "roofline_us": 2.0}


def kernel(text):
    return Candidate(backend="cpp", files={"kernel.cpp": text})


def make_lineage(task):
    """A failed draft, a correct one, two refinements of it, and a refinement of one of them."""
    profile = Profile(bottleneck="memory", summary="It moves 12 GB/s of 20 GB/s.", figures=FIGURES)
    shown_items = (ContextRef(id="cpp/tiling", role="practice", q=0.25), ContextRef(id="cpp/entry", role="api"))
    fast = passed_outcome(25.0).model_copy(update={"profile": profile})
    refine = {"stage": Stage.REFINE}
    return [
        make_attempt(task, 0, failed_outcome("build", "compile_error", "kernel.cpp:3: expected ';'")),
        make_attempt(task, 1, passed_outcome(100.0), candidate=kernel("int a;\nint b;\n")),
        make_attempt(task, 2, fast, candidate=kernel("int a;\nint c;\n"), start_point=f"{task.id}/1", shown_items=shown_items, **refine),
        make_attempt(task, 3, failed_outcome("check", "mismatch"), start_point=f"{task.id}/1", **refine),
        make_attempt(task, 4, passed_outcome(50.0), candidate=kernel("int a;\nint c;\nint d;\n"), start_point=f"{task.id}/2", **refine),
    ]


@pytest.fixture
def run(tmp_path):
    task = sample_run.make_task("relu")
    run = sample_run.write_run(tmp_path / "runs" / "one", [task, sample_run.make_task("gelu")], make_lineage(task), budget=9)
    run.store_reply("made/relu/2", "reply", Reply(candidate=kernel(""), prompt="Write a faster kernel.", text="Here it is."))
    return run


def test_page_shows_lineage_gates_and_profile(run, tmp_path, serve, page):
    page.goto(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu")
    assert page.locator(".tree a").count() == 5
    assert page.locator(".tree .edge").count() == 3
    assert page.locator(".tree .node.best.chosen text").text_content() == "3 25.0 µs"
    detail = page.inner_text("#attempt")
    for text in ("Attempt 3", "attempt 2", "memory: It moves 12 GB/s of 20 GB/s.", "cpp/tiling", "+0.250", "Roofline", "floor"):
        assert text in detail, text
    page.click("text=reply.prompt.md")
    assert page.is_visible("text=Write a faster kernel.")
    page.click(".tree a >> nth=0")
    page.wait_for_url("**number=1")
    assert "expected ';'" in page.inner_text("#attempt .feedback")
    assert "compile_error" in page.inner_text("#attempt .gates")


def test_diff_of_any_two_attempts(run, tmp_path, serve, page):
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/task?run=one&task=made/relu")
    assert page.locator("#diff .add").all_inner_texts() == ["+int c;\n"]
    assert page.locator("#diff .del").all_inner_texts() == ["-int b;\n"]
    page.fill("input[name=number]", "5")
    page.fill("input[name=with_number]", "2")
    page.press("input[name=with_number]", "Enter")
    page.wait_for_url("**number=5&with_number=2")
    assert page.locator("#diff .add").all_inner_texts() == ["+int c;\n", "+int d;\n"]


def test_task_without_attempts_and_unknown_task(run, tmp_path, serve, page):
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/task?run=one&task=made/gelu")
    assert "no attempts yet" in page.inner_text("#tree")
    assert page.goto(f"{url}/task?run=one&task=made/none").status == 404
    assert page.goto(f"{url}/task?run=one&task=made/relu&attempt=99&with=x").status == 200
    page.messages.clear()


def test_new_attempt_arrives_live(run, tmp_path, serve, page):
    page.goto(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu")
    page.wait_for_selector("#live-state.on")
    run.journal.append(make_attempt(sample_run.make_task("relu"), 5, passed_outcome(5.0), stage=Stage.REFINE, start_point="made/relu/4"))
    page.wait_for_selector(".tree .node.best >> text=6 5.00 µs")
    assert page.locator(".tree a").count() == 6


def test_click_is_not_lost_to_an_update(run, tmp_path, serve, page):
    address = f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu"
    other = page.context.new_page()
    for one in (other, page):
        one.goto(address)
        one.wait_for_selector("#live-state.on")
    page.bring_to_front()
    page.locator(".tree a").first.hover()
    page.mouse.down()
    run.journal.append(make_attempt(sample_run.make_task("relu"), 5, passed_outcome(5.0), stage=Stage.REFINE, start_point="made/relu/4"))
    other.wait_for_selector(".tree .node.best >> text=6 5.00 µs")
    page.wait_for_timeout(1000)
    page.mouse.up()
    page.wait_for_url("**number=1**")


def test_task_page_fits_a_phone(run, tmp_path, serve, browser):
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True)
    page = context.new_page()
    page.goto(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    context.close()


def test_hostile_kernels_prompts_and_replies_stay_text(tmp_path, serve, page):
    task = sample_run.make_task("relu")
    bad = Candidate(backend="cpp", files={f"k{SCRIPT}.cpp": SCRIPT}, notes=SCRIPT)
    profile = Profile(bottleneck=SCRIPT, summary=SCRIPT, figures={SCRIPT: 1.0})
    outcome = passed_outcome(3.0, clock=SCRIPT).model_copy(update={"profile": profile, "skipped_checks": (SCRIPT,), "protocol": SCRIPT})
    shown_items = (ContextRef(id=SCRIPT, role="trace", q=0.0),)
    attempts = [
        make_attempt(task, 0, failed_outcome("check", SCRIPT, SCRIPT), candidate=bad, shown_items=shown_items, lesson=SCRIPT),
        make_attempt(task, 1, outcome, candidate=bad, stage=Stage.REFINE, start_point=f"{task.id}/0"),
    ]
    run = sample_run.write_run(tmp_path / "runs" / "one", [task], attempts)
    for one in attempts:
        run.store_reply(one.id, "reply", Reply(candidate=bad, prompt=SCRIPT, text=SCRIPT))
    url = serve([tmp_path / "runs"]).url
    for number in (0, 1):
        page.goto(f"{url}/task?run=one&task=made/relu&attempt={number}")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.locator("pre", has_text="<script>window.hit").count() >= 3
        page.wait_for_timeout(100)
        assert page.evaluate("window.hit") is None
        assert page.locator("main script, main img, main svg[onload]").count() == 0


def test_long_lineage_is_limited_to_relatives():
    parents = [None, *range(999)]
    numbers = lineage.select_relatives(parents, 500)
    assert len(numbers) == lineage.MAX_NODES
    assert 500 in numbers
    assert len(lineage.layout_tree(parents, numbers)) == len(numbers)


def test_cyclic_start_points_are_ignored():
    task = sample_run.make_task("relu")
    attempts = [make_attempt(task, n, passed_outcome(1.0), start_point=f"{task.id}/{1 - n}") for n in (0, 1)]
    assert lineage.parent_numbers(attempts) == [None, 0]


def test_children_stand_below_their_start_point():
    positions = lineage.layout_tree([None, 0, 0, 1, None], range(5))
    assert positions == {0: (0, 0), 1: (1, 0), 3: (2, 0), 2: (1, 1), 4: (0, 2)}


def test_diff_lists_changed_and_identical_files():
    diffs = diff.diff_files({"a": "x\n", "same": "s"}, {"b": "y\n", "same": "s"})
    assert [(one.name, [line.text for line in one.lines if line.kind in ("add", "del")], one.note) for one in diffs] == [
        ("a", ["-x"], ""),
        ("b", ["+y"], ""),
        ("same", [], "identical in both"),
    ]
    assert "not compared" in diff.diff_files({"a": "x\n" * 4000}, {"a": "y\n" * 4000})[0].note


def test_opportunities_stand_beside_the_lines_that_cause_them(tmp_path, serve, page):
    task = sample_run.make_task("relu")
    opportunities = (
        Opportunity(cause="small_copies", gain_us=30.0, summary="Use larger blocks.", card="larger-blocks"),
        Opportunity(cause="cross_lane", gain_us=12.5, line=2, summary=f"Reduce once. {SCRIPT}", card="row-sums"),
    )
    outcome = passed_outcome(100.0).model_copy(
        update={"profile": Profile(bottleneck="latency", summary="It waits.", opportunities=opportunities)}
    )
    attempts = [make_attempt(task, 0, outcome, candidate=kernel("int a;\nint b;\nint c;\n")), make_attempt(task, 1, passed_outcome(200.0))]
    sample_run.write_run(tmp_path / "runs" / "one", [task], attempts, budget=2)
    url = f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu"
    page.goto(f"{url}&attempt=0")
    rows = [row.split("\t")[:4] for row in page.locator(".opportunities tbody tr").all_inner_texts()]
    assert rows == [["small_copies", "", "30.0 µs", "30 %"], ["cross_lane", "2", "12.5 µs", "12 %"]]
    assert page.locator(".annotated .gain").all_text_contents() == ["12.5 µs2int b;\n"]
    assert "The kernel loses time by" in page.get_attribute(".opportunities td", "title")
    page.click(".opportunities a")
    assert page.evaluate("location.hash") == "#line-2"
    if folder := os.environ.get("EVOKERNEL_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/opportunities.png", full_page=True)
    page.goto(f"{url}&attempt=1")
    assert not page.locator(".opportunities, .annotated").count()
