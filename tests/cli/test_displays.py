"""The live display, rendered into a string, and the plain one."""

import io
import time
from pathlib import Path

import pytest
import sample_run
from rich.console import Console

from evokernel.app.run_progress import Progress, describe_outcome
from evokernel.cli.heartbeat import Heartbeat
from evokernel.cli.live_display import LiveDisplay
from evokernel.cli.progress import PlainDisplay
from evokernel.core.config import RunConfig
from evokernel.reports.next_steps import terminal_steps


def render_display(progress: Progress, height: int) -> str:
    console = Console(file=io.StringIO(), width=110, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(LiveDisplay(progress, console).render())
    return captured.get()


def test_live_display_shows_rows_totals_and_notice() -> None:
    tasks, attempts = sample_run.make_sample()
    progress = Progress(tasks, RunConfig(budget=3))
    for attempt in attempts[:5]:
        progress.add_attempt(attempt)
    progress.set_phase("made/relu", "verify")
    progress.notice = "Finishing 1 attempt in flight; press Ctrl-C again to abort"
    text = render_display(progress, 24)
    relu = next(line for line in text.splitlines() if line.startswith("relu"))
    assert relu.split()[:3] == ["relu", "refine", "verify"]
    assert "2/3" in relu
    assert "25.0 µs" in relu
    assert "4.00× faster" in relu
    assert "mismatch" in next(line for line in text.splitlines() if line.startswith("softmax"))
    assert "5/9 attempts, 3 of 3 compiled, 1 correct" in text
    assert "failures: mismatch 2, compile_error 1\n" in text
    assert "cost: none" in text
    assert "again to abort" in text


def test_estimates_are_labelled() -> None:
    tasks, _ = sample_run.make_sample()
    progress = Progress(tasks, RunConfig())
    assert "times:" not in render_display(progress, 24)
    attempt = sample_run.make_attempt(tasks[0], 0, sample_run.estimated_outcome(50.0))
    line = progress.add_attempt(attempt)
    assert "times: estimate (schedule), speed relative to XLA\n" in render_display(progress, 24)
    assert describe_outcome(attempt, line) == "ok   50.0 µs  2.00× faster (best 50.0 µs, estimate (schedule))"
    display = PlainDisplay(progress, io.StringIO())
    assert display.round_summary().endswith("times: estimate (schedule), speed relative to XLA")


def test_live_display_fits_and_lists_active_tasks_first() -> None:
    tasks = [sample_run.make_task(f"op{n:02}") for n in range(40)]
    progress = Progress(tasks, RunConfig())
    progress.set_phase("made/op33", "write")
    text = render_display(progress, 20)
    assert len(text.splitlines()) <= 20
    assert "op33" in text
    assert "28 more tasks not shown" in text
    assert "remaining time unknown" in text


def test_resumed_attempts_do_not_count_for_the_estimate() -> None:
    tasks, attempts = sample_run.make_sample()
    progress = Progress(tasks, RunConfig(budget=3), resumed_attempts=2)
    for attempt in attempts[:2]:
        progress.add_attempt(attempt)
    assert progress.remaining_s is None
    progress.add_attempt(attempts[2])
    assert progress.remaining_s is not None


def test_pending_result_is_shown_as_done_and_counts_for_the_estimate() -> None:
    """The policy learns in task order, so a verified attempt may wait; it must not look as if it had not started."""
    tasks, attempts = sample_run.make_sample()
    progress = Progress(tasks, RunConfig(budget=3))
    for phase in ("write", "verify", ""):
        progress.set_phase("made/softmax", phase)
    softmax = next(line for line in render_display(progress, 24).splitlines() if line.startswith("softmax"))
    assert softmax.split()[:4] == ["softmax", "draft", "done", "0/3"]
    before = progress.remaining_s
    assert before is not None
    assert before < 8.5 * progress.elapsed_s  # eight of nine are left
    progress.add_attempt(attempts[1])
    assert not progress.task_progress["made/softmax"].has_pending_result
    assert "waiting" in next(line for line in render_display(progress, 24).splitlines() if line.startswith("softmax"))


def test_lines_of_a_long_wait_become_rarer() -> None:
    lines: list[str] = []
    with Heartbeat(lambda: "waiting", lines.append, quiet_s=0.05):
        time.sleep(1.0)
    assert 2 <= len(lines) <= 8, "twenty would fill a log"


def test_quiet_command_prints_what_it_does() -> None:
    lines: list[str] = []
    with Heartbeat(lambda: "waiting", lines.append, quiet_s=0.05):
        time.sleep(0.2)
    assert 1 <= len(lines) <= 4
    lines.clear()
    with Heartbeat(lambda: "waiting", lines.append, quiet_s=0.3) as heartbeat:
        for _ in range(8):
            time.sleep(0.05)
            heartbeat.touch()
    assert lines == []


def test_plain_display_names_the_tasks_in_flight_while_nothing_finishes() -> None:
    tasks = [sample_run.make_task(f"op{n}") for n in range(5)]
    progress = Progress(tasks, RunConfig(budget=3))
    for task in tasks[:4]:
        progress.set_phase(task.id, "verify")
    progress.set_phase("made/op4", "")
    stream = io.StringIO()
    with PlainDisplay(progress, stream, quiet_s=0.05):
        time.sleep(0.15)
    line = stream.getvalue().splitlines()[0]
    assert "1 attempt verified" in line
    assert "verify op0 0 s, verify op1 0 s, verify op2 0 s, 1 more" in line


def test_reevaluation_has_its_own_estimate_which_is_never_negative() -> None:
    tasks, attempts = sample_run.make_sample()
    progress = Progress(tasks, RunConfig(budget=3))
    for attempt in attempts:
        progress.add_attempt(attempt)
    progress.start_reevaluation(2)
    assert progress.remaining_s is None
    progress.add_reevaluation()
    assert "1 of 2 re-evaluated" in progress.describe_activity()
    progress.add_reevaluation()
    progress.add_reevaluation()  # a kernel that failed its re-evaluation is replaced by the next best
    assert progress.remaining_s == 0


def test_total_shrinks_when_a_task_ends_early() -> None:
    tasks, _ = sample_run.make_sample()
    progress = Progress(tasks, RunConfig(budget=5, stop_when="gain", min_expected_gain=0.25))
    progress.add_attempt(sample_run.make_attempt(tasks[0], 0, sample_run.estimated_outcome(50.0)))
    assert progress.total_attempts == 15
    refinement = sample_run.make_attempt(tasks[0], 1, sample_run.estimated_outcome(60.0)).model_copy(
        update={"stage": "refine", "reward": 0.0}
    )
    progress.add_attempt(refinement)
    assert progress.total_attempts == 12


def test_next_steps_are_three_commands_as_the_user_types_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVOKERNEL_COMMAND", raising=False)
    steps = [command for _, command in terminal_steps(Path("runs/one"), "template_search", has_kernels=True)]
    assert steps[:2] == ["evokernel web runs/one --open", "evokernel export runs/one --out kernels"]
    assert steps[2].startswith("evokernel run --generator llm")
    monkeypatch.setenv("EVOKERNEL_COMMAND", "./dev exec evokernel")
    labels, commands = zip(*terminal_steps(Path("runs/one"), "llm", has_kernels=False))
    assert commands == ("./dev exec evokernel web runs/one --open", "./dev exec evokernel resume runs/one --budget N")
    assert "use the kernels" not in labels


def test_reused_outcome_names_the_attempt_that_was_verified() -> None:
    tasks, _ = sample_run.make_sample()
    progress = Progress(tasks, RunConfig())
    outcome = sample_run.estimated_outcome(50.0).model_copy(update={"reused_from": f"{tasks[0].id}/1"})
    attempt = sample_run.make_attempt(tasks[0], 2, outcome)
    text = describe_outcome(attempt, progress.add_attempt(attempt))
    assert text.endswith(f"; same kernel as {tasks[0].id} attempt 2, not verified again")
