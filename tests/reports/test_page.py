"""The page of a run: complete, self-contained, and safe to open with any text from kernels and models."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_run

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate
from evokernel.core.run import Run
from evokernel.reports.page import ItemValues, write_report

pytestmark = pytest.mark.heavy  # draws figures

EVIL = '<script>alert("x")</script><img src=http://evil.example/x onerror=alert(1)>'


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found_tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found_tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """A run in which every text from outside is an attack."""
    tasks, attempts = sample_run.make_sample()
    tasks[0] = tasks[0].model_copy(update={"source": f"# {EVIL}\n{tasks[0].source}"})
    kernel = Candidate(backend="cpp", files={"kernel.cpp": f"// {EVIL} $x^2$\n"}, notes=EVIL)
    attempts[3] = attempts[3].model_copy(update={"candidate": kernel, "lesson": EVIL})
    attempts[1] = sample_run.make_attempt(tasks[1], 0, sample_run.failed_outcome("build", EVIL, EVIL))
    ref = attempts[4].shown_items[0].model_copy(update={"id": f"{EVIL}$"})
    attempts[4:6] = [attempt.model_copy(update={"shown_items": (ref,)}) for attempt in attempts[4:6]]
    run = sample_run.write_run(
        tmp_path_factory.mktemp("page") / "run", tasks, attempts, generator={"name": "template_search", "note": EVIL}
    )
    value = ItemValues(id=EVIL, kind="trace", title=EVIL, q1=0.5, visits1=2, q2=None, visits2=0)
    return run, write_report(run, attempts, [value]).read_text()


def test_texts_from_outside_are_escaped(hostile: tuple[Run, str]) -> None:
    _, page = hostile
    assert "&lt;script&gt;" in page
    tags = Tags(page).found_tags
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in tags}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


def test_page_loads_nothing(hostile: tuple[Run, str]) -> None:
    _, page = hostile
    for _, attributes in Tags(page).found_tags:
        for name in ("src", "href", "xlink:href", "data", "action"):
            assert (attributes.get(name) or "#").startswith("#"), attributes
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_page_covers_the_run(hostile: tuple[Run, str]) -> None:
    run, page = hostile
    for text in (
        "made-run",
        "Operators",
        "first→best",
        "Most useful memory items",
        "+0.50",
        "CPU time per core",
        "prefers-color-scheme",
        "0.1.0",
    ):
        assert text in page, text
    assert page.count("<svg") == 9
    files = sorted(path.name for path in (run.folder / "plots").iterdir())
    names = ("best-latency", "cost", "failures", "gains", "item-values", "roles", "solved", "speedups", "value")
    assert files == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))


def test_page_without_attempts_and_values(tmp_path: Path) -> None:
    run = sample_run.write_run(tmp_path / "run", sample_run.make_sample()[0], [])
    page = write_report(run, [], None).read_text()
    assert "<svg" not in page
    assert "could not be read" in page


@pytest.mark.slow(one_in=5)
def test_many_tasks_are_drawn_without_names(tmp_path: Path) -> None:
    tasks = [sample_run.make_task(f"op{n}") for n in range(70)]
    attempts = [sample_run.make_attempt(task, 0, sample_run.passed_outcome(10.0 + n)) for n, task in enumerate(tasks)]
    run = sample_run.write_run(tmp_path / "run", tasks, attempts)
    write_report(run, attempts, [])
    svg = (run.folder / "plots" / "speedups.svg").read_text()
    assert "70 tasks" in svg
    assert "op12" not in svg


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    run = sample_run.write_run(tmp_path / "run", sample_run.make_sample()[0], [])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another folder with --out"):
        write_report(run, [], [], tmp_path / "file" / "page.html")


def test_out_leaves_the_run_folder_unchanged(tmp_path: Path) -> None:
    run = sample_run.write_run(tmp_path / "run", *sample_run.make_sample())
    before = sorted(path.name for path in run.folder.iterdir())
    write_report(run, run.attempts(), [], tmp_path / "there" / "page.html")
    assert (tmp_path / "there" / "page-plots" / "gains.png").is_file()
    assert sorted(path.name for path in run.folder.iterdir()) == before


def test_task_warnings_are_shown(tmp_path: Path) -> None:
    odd = sample_run.make_task("odd").model_copy(update={"tags": ("random",)})
    run = sample_run.write_run(tmp_path / "run", [odd], [])
    assert "no kernel can match it" in write_report(run, [], []).read_text()


def test_kernel_that_is_not_faster_than_its_baseline_is_marked(tmp_path: Path) -> None:
    task = sample_run.make_task("slow")
    run = sample_run.write_run(tmp_path / "run", [task], [sample_run.make_attempt(task, 0, sample_run.passed_outcome(600.0))])
    note = "Not faster than the best baseline (6.00× slower than PyTorch eager): evokernel export leaves it out unless --all is given."
    assert note in write_report(run, run.attempts(), []).read_text()
    faster = sample_run.write_run(tmp_path / "other", [task], [sample_run.make_attempt(task, 0, sample_run.passed_outcome(50.0))])
    assert "leaves it out" not in write_report(faster, faster.attempts(), []).read_text()


def test_plots_of_synthetic_times_say_so(tmp_path: Path) -> None:
    tasks, _ = sample_run.make_sample()
    attempts = [sample_run.make_attempt(tasks[0], n, sample_run.passed_outcome(10.0 - n, clock="synthetic")) for n in range(2)]
    run = sample_run.write_run(tmp_path / "run", tasks, attempts)
    write_report(run, attempts, [])
    for name in ("speedups", "gains", "best-latency"):
        assert "synthetic (not measured)" in (run.folder / "plots" / f"{name}.svg").read_text()


def test_page_names_estimates_and_their_baseline(tmp_path: Path) -> None:
    tasks, _ = sample_run.make_sample()
    attempts = [sample_run.make_attempt(tasks[0], n, sample_run.estimated_outcome(50.0 - n)) for n in range(2)]
    run = sample_run.write_run(tmp_path / "run", tasks, attempts)
    page = write_report(run, attempts, []).read_text()
    for text in (
        "seed 0. Times: estimate (schedule).",
        "Speed-up over XLA.</b>",
        "faster than XLA; hatched bars: slower.",
        "49.0 µs, 2.04× faster than XLA, estimate (schedule)",
        "correct, 50.0 µs, estimate (schedule), 2.00× faster than XLA",
    ):
        assert text in page, text
    assert "± " not in page, "an estimate has no noise"
    assert "speed-up over XLA, logarithmic; estimate (schedule)" in (run.folder / "plots" / "speedups.svg").read_text()


@pytest.mark.toolchain
def test_full_disk_is_named_and_loses_only_the_page(tmp_path: Path) -> None:
    run = sample_run.write_run(tmp_path / "run", *sample_run.make_sample())
    before = (run.folder / "attempts.jsonl").read_bytes()
    command = f"ulimit -f 4; exec {sys.executable} -B -m evokernel.cli.main report {run.folder}"
    process = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert process.returncode == 2, process.stderr
    assert re.match(r"error: cannot write .*[Ff]ree some space", process.stderr.splitlines()[-1])
    assert "first→best gain" in process.stdout
    assert (run.folder / "attempts.jsonl").read_bytes() == before
