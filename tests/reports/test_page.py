"""The page of a run: complete, self-contained, and safe to open whatever a kernel or a model wrote."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import made_run
import pytest

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate
from evokernel.core.run import Run
from evokernel.reports.page import Valued, write_report

EVIL = '<script>alert("x")</script><img src=http://evil.example/x onerror=alert(1)>'


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """A run in which every text that someone else wrote is an attack."""
    tasks, attempts = made_run.made()
    tasks[0] = tasks[0].model_copy(update={"source": f"# {EVIL}\n{tasks[0].source}"})
    kernel = Candidate(backend="cpp", files={"kernel.cpp": f"// {EVIL} $x^2$\n"}, notes=EVIL)
    attempts[3] = attempts[3].model_copy(update={"candidate": kernel, "lesson": EVIL})
    attempts[1] = made_run.attempt(tasks[1], 0, made_run.failed("build", EVIL, EVIL))
    shown = attempts[4].shown_items[0].model_copy(update={"id": f"{EVIL}$"})
    attempts[4:6] = [attempt.model_copy(update={"shown": (shown,)}) for attempt in attempts[4:6]]
    run = made_run.write_run(tmp_path_factory.mktemp("page") / "run", tasks, attempts, generator={"name": "template_search", "note": EVIL})
    value = Valued(id=EVIL, kind="trace", title=EVIL, q1=0.5, visits1=2, q2=None, visits2=0)
    return run, write_report(run, attempts, [value]).read_text()


def test_whatever_others_wrote_is_escaped(hostile: tuple[Run, str]) -> None:
    _, page = hostile
    assert "&lt;script&gt;" in page
    tags = Tags(page).seen
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in tags}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


def test_the_page_loads_nothing(hostile: tuple[Run, str]) -> None:
    _, page = hostile
    for _, attributes in Tags(page).seen:
        for name in ("src", "href", "xlink:href", "data", "action"):
            assert (attributes.get(name) or "#").startswith("#"), attributes
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_the_page_tells_the_whole_run(hostile: tuple[Run, str]) -> None:
    run, page = hostile
    for text in (
        "made-run",
        "Operators",
        "first→best",
        "Most useful memories",
        "+0.50",
        "CPU time per core",
        "prefers-color-scheme",
        "0.1.0",
    ):
        assert text in page, text
    assert page.count("<svg") == 9
    drawn = sorted(path.name for path in (run.folder / "plots").iterdir())
    names = ("failures", "gains", "roles", "solved", "speedups", "spent", "trajectories", "values", "worth")
    assert drawn == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))


def test_no_attempts_no_values_still_a_page(tmp_path: Path) -> None:
    run = made_run.write_run(tmp_path / "run", made_run.made()[0], [])
    page = write_report(run, [], None).read_text()
    assert "<svg" not in page
    assert "could not be read" in page


def test_many_tasks_are_drawn_without_names(tmp_path: Path) -> None:
    tasks = [made_run.task(f"op{n}") for n in range(70)]
    attempts = [made_run.attempt(task, 0, made_run.passed(10.0 + n)) for n, task in enumerate(tasks)]
    run = made_run.write_run(tmp_path / "run", tasks, attempts)
    write_report(run, attempts, [])
    drawn = (run.folder / "plots" / "speedups.svg").read_text()
    assert "70 tasks" in drawn
    assert "op12" not in drawn


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    run = made_run.write_run(tmp_path / "run", made_run.made()[0], [])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="give another place with --out"):
        write_report(run, [], [], tmp_path / "file" / "page.html")


def test_elsewhere_means_that_the_run_folder_is_left_alone(tmp_path: Path) -> None:
    run = made_run.write_run(tmp_path / "run", *made_run.made())
    before = sorted(path.name for path in run.folder.iterdir())
    write_report(run, run.attempts(), [], tmp_path / "there" / "page.html")
    assert (tmp_path / "there" / "page-plots" / "gains.png").is_file()
    assert sorted(path.name for path in run.folder.iterdir()) == before


def test_what_is_odd_about_a_task_is_said(tmp_path: Path) -> None:
    odd = made_run.task("odd").model_copy(update={"tags": ("random",)})
    run = made_run.write_run(tmp_path / "run", [odd], [])
    assert "no kernel can match it" in write_report(run, [], []).read_text()


def test_plots_of_made_up_times_say_so(tmp_path: Path) -> None:
    tasks, _ = made_run.made()
    attempts = [made_run.attempt(tasks[0], n, made_run.passed(10.0 - n, clock="synthetic")) for n in range(2)]
    run = made_run.write_run(tmp_path / "run", tasks, attempts)
    write_report(run, attempts, [])
    for name in ("speedups", "gains", "trajectories"):
        assert "synthetic (not measured)" in (run.folder / "plots" / f"{name}.svg").read_text()


def test_estimates_and_their_baseline_are_named_on_the_page(tmp_path: Path) -> None:
    tasks, _ = made_run.made()
    attempts = [made_run.attempt(tasks[0], n, made_run.estimated(50.0 - n)) for n in range(2)]
    run = made_run.write_run(tmp_path / "run", tasks, attempts)
    page = write_report(run, attempts, []).read_text()
    for text in (
        "seed 0. Times: estimate (schedule).",
        "Speed-up over XLA.</b>",
        "slower than XLA.",
        "49.0 µs, 2.04× over XLA, estimate (schedule)",
        "correct, 50.0 µs, estimate (schedule), 2.00×",
    ):
        assert text in page, text
    assert "± " not in page, "an estimate has no noise"
    assert "speed-up over XLA, logarithmic; estimate (schedule)" in (run.folder / "plots" / "speedups.svg").read_text()


def test_a_full_disk_is_named_and_costs_nothing_but_the_page(tmp_path: Path) -> None:
    run = made_run.write_run(tmp_path / "run", *made_run.made())
    before = (run.folder / "attempts.jsonl").read_bytes()
    command = f"ulimit -f 4; exec {sys.executable} -m evokernel.cli.main report {run.folder}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert re.match(r"error: cannot write .*free some space", done.stderr.splitlines()[-1])
    assert "first→best gain" in done.stdout
    assert (run.folder / "attempts.jsonl").read_bytes() == before
