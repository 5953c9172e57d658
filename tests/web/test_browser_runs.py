"""The pages Runs and Run in a real browser, while a run is written."""

import threading
import time

import sample_run
from sample_run import failed_outcome, make_attempt, passed_outcome
from time_limits import HANG_S

from evokernel.core.records import Stage
from evokernel.web import runs


def write_run(folder, upto=9, **settings):
    tasks, attempts = sample_run.make_sample()
    return sample_run.write_run(folder, tasks, attempts[:upto], **settings), attempts


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def test_list_of_runs_shows_progress_and_best_results(tmp_path, serve, page):
    write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "runs" / "two", 4)
    dashboard = serve([tmp_path / "runs"])
    page.goto(dashboard.url)
    page.wait_for_selector("#row-one progress")
    page.wait_for_selector("#row-two progress")
    row = page.inner_text("#row-one")
    for text in ("finished", "9 of 9", "67 %", "4.00× faster", "made/relu", "cpp", "no model was called"):
        assert text in row
    assert "unfinished" in page.inner_text("#row-two")
    page.get_by_label("Compare two").uncheck()
    page.wait_for_url("**compare=one**")
    assert page.locator("#chart .legend li").all_inner_texts() == ["one"]
    page.get_by_label("Compare by").select_option("reward")
    page.wait_for_url("**by=reward**")
    assert "mean reward" in page.inner_text("#chart")
    page.reload()
    assert page.get_by_label("Compare two").is_checked() is False
    assert page.get_by_label("Compare by").input_value() == "reward"


def test_new_run_appears_in_an_empty_list(tmp_path, serve, page):
    (tmp_path / "runs").mkdir()
    dashboard = serve([tmp_path / "runs"])
    page.goto(dashboard.url)
    assert "There are no runs yet" in page.inner_text("main")
    write_run(tmp_path / "runs" / "one", 0)
    page.wait_for_selector("#row-one")
    page.click("#row-one a")
    page.wait_for_selector("#grid .cell")
    assert "No attempt is finished yet" in page.inner_text("#latest")


def test_damaged_runs_are_reported(tmp_path, serve, page):
    run, attempts = write_run(tmp_path / "runs" / "half", 4)
    with run.journal.path.open("a") as file:
        file.write("{broken\n")
    run.journal.append(attempts[4])
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.toml").write_text("= not toml")
    dashboard = serve([tmp_path / "runs"])
    page.goto(dashboard.url)
    page.wait_for_selector("#row-bad .badge.failed")
    assert "not valid TOML" in page.inner_text("#row-bad")
    page.goto(f"{dashboard.url}/run?run=half")
    assert "line 5 cannot be read" in page.inner_text("[role=alert]")
    assert page.locator("#grid .cell").count() == 3
    page.goto(f"{dashboard.url}/run?run=bad")
    assert "not valid TOML" in page.inner_text("[role=alert]")


def test_page_follows_a_run_that_is_being_written(tmp_path, serve, page):
    run, attempts = write_run(tmp_path / "runs" / "one", 2)
    dashboard = serve([tmp_path / "runs"])
    page.goto(f"{dashboard.url}/run?run=one")
    page.wait_for_selector("#live-state.on")
    assert page.locator("#task-0 .badge.correct").count() == 1
    page.click("#charts summary >> nth=0")
    page.focus("#task-1 a")
    page.evaluate("window.stayed = true")
    line = attempts[2].model_dump_json() + "\n"
    with run.journal.path.open("a") as file:
        file.write(line[:50])
        file.flush()
        time.sleep(0.6)
        assert "made/matmul attempt 1" not in page.inner_text("#latest")
        file.write(line[50:])
    page.wait_for_selector("#latest >> text=made/matmul attempt 1")
    for one in attempts[3:8]:
        run.journal.append(one)
    page.wait_for_selector("#task-1 .badge.correct")
    assert "8 of 9 attempts" in page.inner_text("#head")
    assert page.evaluate("window.stayed") is True
    assert page.locator("#charts details[open]").count() == 1
    assert page.evaluate("document.activeElement.closest('li')?.id") == "task-1"


def test_event_stream_reconnects(tmp_path, serve, page):
    run, attempts = write_run(tmp_path / "runs" / "one", 2)
    dashboard = serve([tmp_path / "runs"])
    page.goto(f"{dashboard.url}/run?run=one")
    page.wait_for_selector("#live-state.on")
    page.context.set_offline(True)
    run.journal.append(attempts[2])
    page.context.set_offline(False)
    page.wait_for_selector("#latest >> text=made/matmul attempt 1")
    page.messages.clear()


def test_filters_are_in_the_url(tmp_path, serve, page):
    write_run(tmp_path / "runs" / "one")
    dashboard = serve([tmp_path / "runs"])
    page.goto(f"{dashboard.url}/run?run=one")
    page.select_option("select[name=show]", "failed")
    page.wait_for_url("**show=failed**")
    assert page.locator("#grid .cell").count() == 0
    page.select_option("select[name=show]", "compiled")
    page.wait_for_url("**show=compiled**")
    assert page.locator("#grid .cell b").all_text_contents() == ["matmul"]
    page.go_back()
    page.wait_for_url("**show=failed**")


def test_run_pages_fit_a_phone_and_have_a_dark_theme(tmp_path, serve, browser):
    write_run(tmp_path / "runs" / "one")
    dashboard = serve([tmp_path / "runs"])
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark", is_mobile=True)
    page = context.new_page()
    for path in ("/", "/run?run=one"):
        page.goto(dashboard.url + path)
        assert overflow(page) <= 0, path
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(20, 23, 27)"
    page.click("#theme")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    context.close()


def test_everything_is_reachable_by_keyboard(tmp_path, serve, page):
    write_run(tmp_path / "runs" / "one")
    dashboard = serve([tmp_path / "runs"])
    page.goto(f"{dashboard.url}/run?run=one")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    focused_ids = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        focused_ids.add(page.evaluate("document.activeElement.closest('[id]')?.id"))
    assert {"theme", "latest", "charts", "task-0", "task-2"} <= focused_ids
    page.focus("#task-0 a")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_hostile_text_stays_text(tmp_path, serve, page):
    """Names, reasons and notes of a run are untrusted text."""
    script = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"
    bad = sample_run.make_task(f"a{script}", family=script)
    attempts = [
        make_attempt(bad, 0, failed_outcome("check", script, script)),
        make_attempt(bad, 1, passed_outcome(3.0), stage=Stage.REFINE, start_point=f"{bad.id}/0"),
    ]
    sample_run.write_run(tmp_path / "runs" / "one", [bad], attempts, id=script)
    dashboard = serve([tmp_path / "runs"])
    for path in ("/", "/run?run=one", f"/run?run=one&text={script}&category={script}", f"/run?run={script}"):
        page.goto(dashboard.url + path)
        page.wait_for_timeout(100)
        assert page.evaluate("window.hit") is None
        assert page.locator("main script, main img").count() == 0
    page.messages.clear()  # the last URL names no run


def test_slow_page_shows_a_waiting_page_first(tmp_path, serve, page, monkeypatch):
    write_run(tmp_path / "runs" / "one")
    queries, ready = [], threading.Event()

    def slow_page(run_index, query, links):
        queries.append(query)
        ready.wait(HANG_S)
        return runs.run_page(run_index, query, links)

    from evokernel.web.server import VIEWS

    monkeypatch.setitem(VIEWS, "run", VIEWS["run"]._replace(make_page=slow_page))
    url = serve([tmp_path / "runs"]).url
    monkeypatch.setattr("evokernel.web.server.PAGE_WAIT_S", 0.1)
    page.goto(f"{url}/run?run=one")
    assert "Reading" in page.inner_text("h1")
    ready.set()
    page.wait_for_selector("#grid .cell")
    assert len(queries) == 1
