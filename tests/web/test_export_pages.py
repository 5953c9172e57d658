"""An exported run, opened from disk in a real browser."""

import made_run
from test_browser_task import SCRIPT, tree_of

from evokernel.core.records import Candidate, Reply
from evokernel.web.export import export
from evokernel.web.run_index import Shelf


def test_it_opens_from_disk_and_asks_nobody(tmp_path, page):
    task = made_run.task("relu")
    run = made_run.write_run(tmp_path / "runs" / "one", [task, made_run.task(f"x{SCRIPT}")], tree_of(task), budget=9)
    run.store_reply("made/relu/2", "reply", Reply(candidate=Candidate(backend="cpp", files={}), prompt=SCRIPT, text=SCRIPT))
    export(Shelf([tmp_path / "runs"], []), "one", tmp_path / "out")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    page.goto((tmp_path / "out" / "index.html").as_uri())
    assert page.locator(".cell").count() == 2
    assert page.evaluate("getComputedStyle(document.querySelector('.cell')).display") == "flex"
    page.click(".cell >> nth=0")
    page.wait_for_url("**/task-0.html")
    page.click(".tree a >> nth=3")
    page.wait_for_url("**/task-0-4.html")
    assert page.locator("#diff .add").all_inner_texts() == ["+int d;\n"]
    page.click("text=Curriculum")
    page.wait_for_url("**/graph.html")
    page.goto((tmp_path / "out" / "task-0-2.html").as_uri())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.locator("pre", has_text="<script>").count() == 2
    assert page.evaluate("window.hit") is None
    assert asked == []
