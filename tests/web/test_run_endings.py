"""Why a run ended, on its page and in the list: the words of the error, the time, and the command that continues it."""

from urllib.request import urlopen

import pytest
import sample_run
from sample_run import failed_outcome, make_attempt

from evokernel.core.sessions import SessionEnd, record_session_end, record_session_start

REFUSAL = "http://model/v1 refused the request (HTTP 401: invalid key); check the key in EVOKERNEL_API_KEY"


@pytest.fixture
def run(tmp_path):
    tasks, _ = sample_run.make_sample()
    run = sample_run.write_run(tmp_path / "runs" / "one", tasks, [])
    record_session_start(run.folder, 1000.0)
    return run


def read_page(serve, tmp_path, path="/run?run=one"):
    return urlopen(serve([tmp_path / "runs"]).url + path).read().decode()


def test_page_says_what_the_endpoint_answered_and_how_to_continue(run, tmp_path, serve):
    record_session_end(run.folder, 1060.0, SessionEnd.FAILED, REFUSAL)
    body = read_page(serve, tmp_path)
    for text in ("The run failed", REFUSAL, "1970-01-01 00:17:40 UTC", f"evokernel resume {run.folder}", "This run made no attempt"):
        assert text in body, text
    for text in ("unfinished", "appear here automatically", "<dd>none</dd>"):
        assert text not in body, text


def test_killed_run_and_its_incidents(run, tmp_path, serve):
    for task in run.tasks:
        run.record_incident(task.id, 0, "HTTP 500 from <b>http://model/v1</b>", 1010.0)
    body = read_page(serve, tmp_path)
    assert "ended abruptly" in body
    assert "without recording why" in body
    assert "HTTP 500 from &lt;b&gt;http://model/v1" in body
    assert "3 times, last 1970-01-01 00:16:50 UTC, made/relu, made/softmax, made/matmul" in body


def test_running_run_is_called_running(run, tmp_path, serve):
    run.lock()
    body = read_page(serve, tmp_path)
    assert 'badge running">running' in body
    assert "appear here automatically" in body
    assert "evokernel resume" not in body


def test_finished_run_without_a_correct_kernel_is_not_green(tmp_path, serve, page):
    task = sample_run.make_task("relu")
    sample_run.write_run(tmp_path / "runs" / "one", [task], [make_attempt(task, 0, failed_outcome("check", "mismatch"))], budget=1)
    url = serve([tmp_path / "runs"]).url
    page.goto(url)
    badge = page.wait_for_selector("#row-one .badge")
    assert badge.inner_text() == "nothing correct"
    assert badge.evaluate("one => getComputedStyle(one).color") == "rgb(179, 38, 30)"
    page.goto(f"{url}/run?run=one")
    assert "no task has a correct kernel" in page.inner_text("[role=alert]")
    assert "evokernel resume" in page.inner_text(".steps")


def test_ending_appears_on_an_open_page(run, tmp_path, serve, page):
    run.lock()
    page.goto(f"{serve([tmp_path / 'runs']).url}/run?run=one")
    page.wait_for_selector("#live-state.on")
    assert page.inner_text("#head .badge") == "running"
    record_session_end(run.folder, 1060.0, SessionEnd.FAILED, REFUSAL)
    run.unlock()
    page.wait_for_selector("#head .badge.failed")
    assert REFUSAL in page.inner_text("#head .ending")


def test_copy_button_copies_the_command(run, tmp_path, serve, browser):
    record_session_end(run.folder, 1060.0, SessionEnd.FAILED, REFUSAL)
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{serve([tmp_path / 'runs']).url}/run?run=one")
    page.click(".steps .copy >> nth=0")
    page.wait_for_selector(".steps .copy >> text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"evokernel resume {run.folder}"
    context.close()
