"""The live display, drawn into a string."""

import io

import made_run
from rich.console import Console

from evokernel.cli.live_display import LiveDisplay
from evokernel.cli.progress import PlainDisplay, Progress, verdict
from evokernel.core.config import RunConfig


def drawn(progress: Progress, height: int) -> str:
    console = Console(file=io.StringIO(), width=110, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(LiveDisplay(progress, console).render())
    return captured.get()


def test_rows_totals_and_notice() -> None:
    tasks, attempts = made_run.made()
    progress = Progress(tasks, RunConfig(budget=3))
    for attempt in attempts[:5]:
        progress.add(attempt)
    progress.phase("made/relu", "verify")
    progress.notice = "finishing 1 attempts in flight; again to abort"
    text = drawn(progress, 24)
    relu = next(line for line in text.splitlines() if line.startswith("relu"))
    assert relu.split()[:3] == ["relu", "refine", "verify"]
    assert "2/3" in relu
    assert "25.0 µs" in relu
    assert "4.00×" in relu
    assert "mismatch" in next(line for line in text.splitlines() if line.startswith("softmax"))
    assert "5/9 attempts, 3 of 3 compiled, 1 correct" in text
    assert "failures: mismatch 2, compile_error 1\n" in text
    assert "cost: none" in text
    assert "again to abort" in text


def test_estimates_are_called_so() -> None:
    tasks, _ = made_run.made()
    progress = Progress(tasks, RunConfig())
    assert "times:" not in drawn(progress, 24)
    made = made_run.attempt(tasks[0], 0, made_run.estimated(50.0))
    line = progress.add(made)
    assert "times: estimate (schedule), speed-up over XLA\n" in drawn(progress, 24)
    assert verdict(made, line) == "ok   50.0 µs  2.00× (best 50.0 µs, estimate (schedule))"
    shown = PlainDisplay(progress, io.StringIO())
    assert shown.end_of_round().endswith("times: estimate (schedule), speed-up over XLA")


def test_no_more_rows_than_fit_and_active_ones_first() -> None:
    tasks = [made_run.task(f"op{n:02}") for n in range(40)]
    progress = Progress(tasks, RunConfig())
    progress.phase("made/op33", "write")
    text = drawn(progress, 20)
    assert len(text.splitlines()) <= 20
    assert "op33" in text
    assert "28 more tasks not shown" in text
    assert "time left not known yet" in text


def test_attempts_of_an_earlier_session_say_nothing_about_the_pace() -> None:
    tasks, attempts = made_run.made()
    progress = Progress(tasks, RunConfig(budget=3), recorded=2)
    for attempt in attempts[:2]:
        progress.add(attempt)
    assert progress.left_s is None
    progress.add(attempts[2])
    assert progress.left_s is not None


def test_an_attempt_that_is_made_is_done_and_counts_for_the_pace() -> None:
    """Results are learned in task order: one that is there already must not look as if it had not begun."""
    tasks, attempts = made_run.made()
    progress = Progress(tasks, RunConfig(budget=3))
    for phase in ("write", "verify", ""):
        progress.phase("made/softmax", phase)
    softmax = next(line for line in drawn(progress, 24).splitlines() if line.startswith("softmax"))
    assert softmax.split()[:4] == ["softmax", "draft", "done", "0/3"]
    before = progress.left_s
    assert before is not None
    assert before < 8.5 * progress.elapsed_s  # eight of nine are left
    progress.add(attempts[1])
    assert not progress.lines["made/softmax"].made
    assert "waits" in next(line for line in drawn(progress, 24).splitlines() if line.startswith("softmax"))
