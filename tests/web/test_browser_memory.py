"""Memory pages in a real browser: search, values, occurrences of items, the curriculum."""

import pytest
import sample_run
from bank_parts import learn, open_bank
from sample_run import failed_outcome, make_attempt, passed_outcome
from test_browser_task import SCRIPT

from evokernel.core.records import ContextRef, MemoryItem, Stage


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.db"
    with open_bank(path, "made-run") as writer:
        tip = MemoryItem(id="cpp/tip", kind="practice", backend="cpp", title="Tile for the cache", text="Small tiles stay in the cache.")
        bad = MemoryItem(id=f"bad{SCRIPT}", kind="trace", backend="cpp", title=SCRIPT, text=SCRIPT, code=SCRIPT, source=SCRIPT, task="t/x")
        writer.add([tip, bad, *(tip.model_copy(update={"id": f"cpp/n{n}", "title": f"Note {n}"}) for n in range(60))])
        for number in range(3):
            learn(writer, "gelu", number, ["cpp/tip"], start="made-run:t/gelu/0" if number else None, feasible=number != 1)
    return path


@pytest.mark.slow(one_in=5)
def test_search_and_value_history(bank, tmp_path, serve, page):
    page.goto(f"{serve([tmp_path / 'runs'], [bank]).url}/memory")
    assert "68 items" in page.inner_text("#results")
    assert page.locator("#results tbody tr").count() == 50
    page.click("text=next")
    page.wait_for_url("**page=2**")
    assert page.locator("#results tbody tr").count() == 18
    page.fill("input[name=q]", "tile CACHE")
    page.press("input[name=q]", "Enter")
    page.wait_for_url("**q=tile**")
    assert page.locator("#results tbody tr").count() == 50
    page.select_option("select[name=how]", "meaning")
    page.wait_for_url("**how=meaning**")
    assert "most similar first" in page.inner_text("#results")
    page.select_option("select[name=kind]", "practice")
    page.wait_for_url("**kind=practice**")
    page.click("text=Tile for the cache")
    page.wait_for_selector("#shown table")
    rows = page.locator("#shown tbody tr").all_inner_texts()
    assert [row.split()[2] for row in rows] == ["3", "2", "1"]
    assert "mismatch" in rows[1]
    assert page.locator("#path svg .line").count() >= 2
    assert "Small tiles stay" in page.inner_text("#text")


def test_value_updates_arrive_live(bank, tmp_path, serve, page):
    page.goto(f"{serve([tmp_path / 'runs'], [bank]).url}/item?bank=bank.db&id=cpp/tip")
    page.wait_for_selector("#live-state.on")
    with open_bank(bank, "other") as writer:
        learn(writer, "relu", 0, ["cpp/tip"])
    page.wait_for_selector("#shown >> text=t/relu attempt 1")


@pytest.mark.slow(one_in=5)
def test_item_without_value_lists_its_occurrences(bank, tmp_path, serve, page):
    sample_run.write_run(tmp_path / "runs" / "one", *sample_run.make_sample())
    with open_bank(bank, "other") as writer:
        writer.add([MemoryItem(id="cpp/tiling", kind="api", backend="cpp", title="Tiling", text="…")])
    url = serve([tmp_path / "runs"], [bank]).url
    page.goto(url)
    page.wait_for_selector("#row-one progress")
    page.goto(f"{url}/item?bank=bank.db&id=cpp/tiling")
    assert "2 attempts of the runs on this dashboard were shown it" in page.inner_text("#shown")
    page.click("#shown a >> nth=1")
    page.wait_for_url("**task?run=one&task=made%2Frelu**")


def test_hostile_items_stay_text(bank, tmp_path, serve, page):
    url = serve([tmp_path / "runs"], [bank]).url
    page.goto(f"{url}/memory?kind=trace")
    page.click("#results tbody tr:has-text('window.hit') a")
    page.wait_for_selector("#text pre")
    for path in ("", f"/memory?q={SCRIPT}&task={SCRIPT}&kind={SCRIPT}&backend={SCRIPT}&min_value=nan&page=-3"):
        if path:
            page.goto(url + path)
        page.wait_for_timeout(100)
        assert page.evaluate("window.hit") is None
        assert page.locator("main script, main img, main svg[onload]").count() == 0


def test_missing_and_damaged_banks_are_reported(tmp_path, serve, page):
    (tmp_path / "bad.db").write_text("nothing of the kind")
    url = serve([tmp_path / "runs"]).url
    page.goto(f"{url}/memory")
    assert "serves no memory bank" in page.inner_text("main")
    url = serve([tmp_path / "runs"], [tmp_path / "bad.db"]).url
    assert page.goto(f"{url}/memory").status == 404
    assert "bad.db" in page.inner_text("main")
    page.messages.clear()


def test_curriculum_of_an_operator(tmp_path, serve, page):
    first, second, third = (sample_run.make_task(name) for name in ("relu", "gelu", "softmax"))

    def refer_to(*tasks):
        return tuple(ContextRef(id=f"made-run:{one.id}/0", role="trace", q=0.1) for one in tasks)

    attempts = [
        make_attempt(first, 0, passed_outcome(10.0)),
        make_attempt(second, 0, failed_outcome("check", "mismatch")),
        make_attempt(third, 0, failed_outcome("check", "mismatch")),
        make_attempt(second, 1, passed_outcome(10.0), shown_items=refer_to(first)),
        make_attempt(third, 1, failed_outcome("check", "mismatch"), shown_items=refer_to(first)),
        make_attempt(third, 2, passed_outcome(10.0), shown_items=refer_to(first, second)),
        make_attempt(first, 1, passed_outcome(9.0), stage=Stage.REFINE, start_point="made/relu/0"),
    ]
    sample_run.write_run(tmp_path / "runs" / "one", [first, second, third], attempts, budget=9)
    page.goto(f"{serve([tmp_path / 'runs']).url}/graph?run=one")
    assert "made/softmax builds on 2 operators" in page.inner_text("#graph")
    assert page.locator(".curriculum .arrow").count() == 3
    assert page.locator(".curriculum .operator.root text").text_content() == "softmax"
    page.select_option("select[name=task]", "made/gelu")
    page.wait_for_url("**task=made%2Fgelu")
    assert page.locator(".curriculum .arrow").count() == 1


def test_memory_pages_fit_a_phone(bank, tmp_path, serve, browser):
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True)
    page = context.new_page()
    url = serve([tmp_path / "runs"], [bank]).url
    for path in ("/memory", "/item?bank=bank.db&id=cpp/tip"):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    context.close()
