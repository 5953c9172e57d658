"""An exported run, opened from disk in a real browser."""

import sample_run
from test_browser_task import SCRIPT, make_lineage

from evokernel.core.records import Candidate, Reply
from evokernel.web.export import export_run
from evokernel.web.run_index import RunIndex


def test_export_opens_from_disk_without_requests(tmp_path, page):
    task = sample_run.make_task("relu")
    run = sample_run.write_run(tmp_path / "runs" / "one", [task, sample_run.make_task(f"x{SCRIPT}")], make_lineage(task), budget=9)
    run.store_reply("made/relu/2", "reply", Reply(candidate=Candidate(backend="cpp", files={}), prompt=SCRIPT, text=SCRIPT))
    export_run(RunIndex([tmp_path / "runs"], []), "one", tmp_path / "out")
    requests = []
    page.on("request", lambda request: requests.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    page.goto((tmp_path / "out" / "index.html").as_uri())
    assert page.locator(".cell").count() == 2
    assert page.evaluate("getComputedStyle(document.querySelector('.cell')).display") == "flex"
    page.click(".cell >> nth=0")
    page.wait_for_url("**/task-0.html")
    page.click(".tree a >> nth=3")
    page.wait_for_url("**/task-0-5.html")
    assert page.locator("#diff .add").all_inner_texts() == ["+int d;\n"]
    page.click("text=Curriculum")
    page.wait_for_url("**/graph.html")
    page.goto((tmp_path / "out" / "task-0-3.html").as_uri())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.locator("pre", has_text="<script>").count() == 2
    assert page.evaluate("window.hit") is None
    assert requests == []
