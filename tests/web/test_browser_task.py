"""A task in a real browser: lineage, differences, gates, profile, prompt; hostile texts stay texts."""

import made_run
import pytest
from made_run import attempt, failed, passed

from evokernel.core.records import Candidate, ContextRef, Profile, Reply, Stage
from evokernel.web import diff, lineage

SCRIPT = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'></pre><svg onload='window.hit = 3'>"
FIGURES = {"ceiling_gbs": 20.0, "ceiling_gflops": 40.0, "roofline_us": 2.0}


def kernel(text):
    return Candidate(backend="cpp", files={"kernel.cpp": text})


def tree_of(task):
    """A draft that fails, one that works, two refined from it, one from those."""
    profile = Profile(bottleneck="memory", summary="It moves 12 GB/s of 20 GB/s.", figures=FIGURES)
    shown = (ContextRef(id="cpp/tiling", role="practice", q=0.25), ContextRef(id="cpp/entry", role="api"))
    fast = passed(25.0).model_copy(update={"profile": profile})
    refine = {"stage": Stage.REFINE}
    return [
        attempt(task, 0, failed("build", "compile_error", "kernel.cpp:3: expected ';'")),
        attempt(task, 1, passed(100.0), candidate=kernel("int a;\nint b;\n")),
        attempt(task, 2, fast, candidate=kernel("int a;\nint c;\n"), start=f"{task.id}/1", shown=shown, **refine),
        attempt(task, 3, failed("check", "mismatch"), start=f"{task.id}/1", **refine),
        attempt(task, 4, passed(50.0), candidate=kernel("int a;\nint c;\nint d;\n"), start=f"{task.id}/2", **refine),
    ]


@pytest.fixture
def run(tmp_path):
    task = made_run.task("relu")
    made = made_run.write_run(tmp_path / "runs" / "one", [task, made_run.task("gelu")], tree_of(task), budget=9)
    made.store_reply("made/relu/2", "reply", Reply(candidate=kernel(""), prompt="Write a faster kernel.", text="Here it is."))
    return made


def test_the_tree_the_gates_and_the_profile(run, tmp_path, serve, page):
    page.goto(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu")
    assert page.locator(".tree a").count() == 5
    assert page.locator(".tree .edge").count() == 3
    assert page.locator(".tree .node.best.chosen text").text_content() == "2 25.0 µs"
    detail = page.inner_text("#attempt")
    for text in ("Attempt 2", "attempt 1", "memory: It moves 12 GB/s of 20 GB/s.", "cpp/tiling", "+0.250", "Roofline", "floor"):
        assert text in detail, text
    page.click("text=reply.prompt.md")
    assert page.is_visible("text=Write a faster kernel.")
    page.click(".tree a >> nth=0")
    page.wait_for_url("**attempt=0")
    assert "expected ';'" in page.inner_text("#attempt .feedback")
    assert "compile_error" in page.inner_text("#attempt .gates")


def test_a_difference_between_any_two(run, tmp_path, serve, page):
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/task?run=one&task=made/relu")
    assert page.locator("#diff .add").all_inner_texts() == ["+int c;\n"]
    assert page.locator("#diff .del").all_inner_texts() == ["-int b;\n"]
    page.fill("input[name=attempt]", "4")
    page.fill("input[name=with]", "1")
    page.press("input[name=with]", "Enter")
    page.wait_for_url("**attempt=4&with=1")
    assert page.locator("#diff .add").all_inner_texts() == ["+int c;\n", "+int d;\n"]


def test_a_task_nobody_tried_and_one_that_is_not(run, tmp_path, serve, page):
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/task?run=one&task=made/gelu")
    assert "Nothing was tried yet" in page.inner_text("#tree")
    assert page.goto(f"{url}/task?run=one&task=made/none").status == 404
    assert page.goto(f"{url}/task?run=one&task=made/relu&attempt=99&with=x").status == 200
    page.said.clear()


def test_an_attempt_arrives(run, tmp_path, serve, page):
    page.goto(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu")
    page.wait_for_selector("#live-state.on")
    run.journal.append(attempt(made_run.task("relu"), 5, passed(5.0), stage=Stage.REFINE, start="made/relu/4"))
    page.wait_for_selector(".tree .node.best >> text=5 5.00 µs")
    assert page.locator(".tree a").count() == 6


def test_a_phone(run, tmp_path, serve, browser):
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True)
    page = context.new_page()
    page.goto(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    context.close()


def test_kernels_prompts_and_replies_are_hostile(tmp_path, serve, page):
    task = made_run.task("relu")
    bad = Candidate(backend="cpp", files={f"k{SCRIPT}.cpp": SCRIPT}, notes=SCRIPT)
    profile = Profile(bottleneck=SCRIPT, summary=SCRIPT, figures={SCRIPT: 1.0})
    outcome = passed(3.0, clock=SCRIPT).model_copy(update={"profile": profile, "without": (SCRIPT,), "protocol": SCRIPT})
    shown = (ContextRef(id=SCRIPT, role="trace", q=0.0),)
    attempts = [
        attempt(task, 0, failed("check", SCRIPT, SCRIPT), candidate=bad, shown=shown, lesson=SCRIPT),
        attempt(task, 1, outcome, candidate=bad, stage=Stage.REFINE, start=f"{task.id}/0"),
    ]
    run = made_run.write_run(tmp_path / "runs" / "one", [task], attempts)
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


def test_a_long_lineage_is_cut_to_the_kin():
    starts = [None, *range(999)]
    shown = lineage.kin(starts, 500)
    assert len(shown) == lineage.MOST_NODES
    assert 500 in shown
    assert len(lineage.laid_out(starts, shown)) == len(shown)


def test_a_ring_of_starts_is_no_ring():
    task = made_run.task("relu")
    attempts = [attempt(task, n, passed(1.0), start=f"{task.id}/{1 - n}") for n in (0, 1)]
    assert lineage.parents(attempts) == [None, 0]


def test_rows_of_a_tree():
    places = lineage.laid_out([None, 0, 0, 1, None], range(5))
    assert places == {0: (0, 0), 1: (1, 0), 3: (2, 0), 2: (1, 1), 4: (0, 2)}


def test_differences_of_files():
    found = diff.compared({"a": "x\n", "same": "s"}, {"b": "y\n", "same": "s"})
    assert [(one.name, [piece.text for piece in one.pieces if piece.kind in ("add", "del")], one.note) for one in found] == [
        ("a", ["-x"], ""),
        ("b", ["+y"], ""),
        ("same", [], "the same in both"),
    ]
    assert "not compared" in diff.compared({"a": "x\n" * 4000}, {"a": "y\n" * 4000})[0].note
