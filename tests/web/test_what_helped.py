"""Which memory items an attempt was shown, what they were worth before and after, and what became of them in the kernel."""

from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import sample_run
from bank_parts import open_bank
from sample_run import failed_outcome, make_attempt, passed_outcome
from test_browser_task import SCRIPT, kernel

from evokernel.core.records import ContextRef, MemoryItem, Stage
from evokernel.web.markdown import render_markdown

LINE = "for (int64_t t = 0; t < n; t += TILE) sum += dot(x + t, y + t, TILE);"
CARD = f"# Tiles\n\nUse `tiles`:\n\n```cpp\n{LINE}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n{SCRIPT}\n\n[x](javascript:alert(1)) ![y](http://other/y.png)"


@pytest.fixture
def url(tmp_path, serve):
    task = sample_run.make_task("relu")
    refs = (
        ContextRef(id="cpp/tiles", role="practice", q=0.25),
        ContextRef(id="made-run:made/relu/0", role="trace", q=None),
        ContextRef(id="cpp/no-card", role="nothing", q=0.0),
    )
    attempts = [
        make_attempt(task, 0, failed_outcome("check", "mismatch"), candidate=kernel("int a;\n")),
        make_attempt(task, 1, passed_outcome(3.0), candidate=kernel(f"int a;\n{LINE}\n"), shown_items=refs),
    ]
    sample_run.write_run(tmp_path / "runs" / "one", [task], attempts)
    with open_bank(tmp_path / "runs" / "bank.db", "made-run") as bank:
        bank.add([MemoryItem(id="cpp/tiles", kind="practice", backend="cpp", title="Tile for the cache", text=CARD)])
        bank.update("made/relu/1", Stage.DRAFT, {"cpp/tiles": 1.0}, 0.5)
    return serve([tmp_path / "runs"], [tmp_path / "runs" / "bank.db"]).url


def test_titles_values_and_lines_taken_over(url, page):
    page.goto(f"{url}/task?{urlencode({'run': 'one', 'task': 'made/relu', 'attempt': 1})}")
    rows = [row.split("\t") for row in page.locator(".helped tbody tr").all_inner_texts()]
    assert [row[0].split("\n") for row in rows] == [
        ["Tile for the cache", "practice card"],
        ["made/relu attempt 1", "kernel"],
        ["nothing: the choice to show no card"],
    ]
    assert rows[0][2:] == ["+0.250", "+0.500", "1", "A 1 line"]
    assert page.locator(".marked .taken").all_text_contents() == [f"{LINE}\n"]
    assert page.get_attribute(".marked .taken", "title") == "As in Tile for the cache"
    explanation = page.inner_text("#attempt")
    assert "Q1: The value of a memory item for drafting" in explanation
    assert "Visits: The number of updates" in explanation
    page.click("text=Tile for the cache >> nth=0")
    page.wait_for_url("**/item?**")


def test_kernel_can_be_copied_and_downloaded(url, browser):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], accept_downloads=True)
    page = context.new_page()
    page.goto(f"{url}/task?{urlencode({'run': 'one', 'task': 'made/relu', 'attempt': 1})}")
    page.click("#attempt .tools .copy")
    page.wait_for_selector("#attempt .copy >> text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"int a;\n{LINE}\n"
    with page.expect_download() as download:
        page.click("#attempt .tools a")
    assert download.value.suggested_filename == "kernel.cpp"
    assert download.value.path().read_text() == f"int a;\n{LINE}\n"
    assert "evokernel verify kernel.cpp --task made/relu --backend cpp" in page.inner_text("#attempt .steps")
    context.close()


@pytest.mark.parametrize("change", [{"file": "../../run.toml"}, {"attempt": "9"}, {"task": "made/none"}, {"run": "two"}])
def test_download_serves_only_files_of_kernels(url, change):
    with pytest.raises(HTTPError) as refusal:
        urlopen(f"{url}/download?{urlencode({'run': 'one', 'task': 'made/relu', 'attempt': '1', 'file': 'kernel.cpp', **change})}")
    assert refusal.value.code == 404


def test_card_is_rendered_and_hostile_text_stays_text(url, page):
    page.goto(f"{url}/item?{urlencode({'bank': 'bank.db', 'id': 'cpp/tiles'})}")
    assert page.inner_text(".markdown h3") == "Tiles"
    assert page.inner_text(".markdown pre code") == f"{LINE}\n"
    assert page.locator(".markdown table td").all_inner_texts() == ["1", "2"]
    page.wait_for_timeout(100)
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img, main svg[onload], main [href^=javascript]").count() == 0
    assert "<script>window.hit" in page.inner_text(".markdown")


def test_links_of_cards_send_no_referrer():
    html = render_markdown("[doc](https://example.org/a) <b>x</b>")
    assert html == '<p><a href="https://example.org/a" rel="noopener noreferrer nofollow">doc</a> &lt;b&gt;x&lt;/b&gt;</p>\n'


def test_addresses_and_notes_count_attempts_from_one(tmp_path, serve):
    task = sample_run.make_task("relu")
    attempts = [
        make_attempt(task, 0, passed_outcome(9.0)),
        make_attempt(
            task, 1, passed_outcome(3.0), candidate=kernel("int a;").model_copy(update={"notes": "refined made/relu/0, other/made/relu/0"})
        ),
    ]
    sample_run.write_run(tmp_path / "runs" / "one", [task], attempts)
    body = urlopen(f"{serve([tmp_path / 'runs']).url}/task?run=one&task=made/relu&number=2").read().decode()
    assert "<h2>Attempt 2" in body
    assert "refined attempt 1, other/made/relu/0" in body
    assert "task=made%2Frelu&amp;number=1" in body
    assert "attempt=" not in body.replace("data-live", "").partition("<main")[2]


def test_run_page_lists_the_items_behind_its_best_kernels(url, page):
    page.goto(f"{url}/run?run=one")
    rows = [row.split("\t") for row in page.locator("#helped tbody tr").all_inner_texts()]
    assert rows[0] == ["Tile for the cache\npractice card", "1", "1", "1", "+1.00"]
    assert len(rows) == 2
    assert page.get_attribute("#helped a", "href").startswith("/item?")
