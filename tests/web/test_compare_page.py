"""The page Compare: runs side by side, chosen in the list or in the form."""

from urllib.request import urlopen

import pytest
import sample_run
from sample_run import make_attempt, make_task, passed_outcome

SCRIPT = "<script>window.hit = 1</script>"


@pytest.fixture
def url(tmp_path, serve):
    tasks = [make_task(name) for name in ("relu", f"gelu{SCRIPT}")]
    for name, factor in (("slow", 2.0), ("fast", 1.0), ("other", 3.0)):
        attempts = [make_attempt(task, 0, passed_outcome(factor * us)) for task, us in zip(tasks, (10.0, 30.0), strict=True)]
        sample_run.write_run(tmp_path / "runs" / name, tasks, attempts, budget=1)
    sample_run.write_run(tmp_path / "runs" / "alien", [make_task("conv")], [], budget=1)
    return serve([tmp_path / "runs"]).url


def test_page_compares_paired_tasks(url):
    body = urlopen(f"{url}/compare?runs=slow,fast").read().decode()
    for text in ("Compared with slow, paired by task", "2.00× faster (2 tasks)", "20.0 µs", "evokernel compare"):
        assert text in body, text
    assert "<script>window" not in body


def test_runs_are_chosen_in_the_list_or_in_the_form(url, page):
    page.goto(f"{url}/?compare=slow,fast")
    page.click("text=Compare both side by side")
    page.wait_for_url("**/compare?**")
    assert "2.00× faster" in page.inner_text("#tables")
    page.click("text=Choose runs")
    page.check("input[value=other]")
    page.click("button:has-text('Compare')")
    page.wait_for_url("**other**")
    assert page.locator("#tables section >> nth=1").locator("tbody tr").count() == 2


def test_page_says_why_runs_cannot_be_compared(url):
    assert "have no task in common" in urlopen(f"{url}/compare?runs=slow,alien").read().decode()
    assert "Name 2 to 8 runs to compare" in urlopen(f"{url}/compare?runs=slow").read().decode()
    assert "Choose runs" in urlopen(f"{url}/compare").read().decode()
