"""Lints many tasks, each in a worker process that may be slow, run out of memory or crash."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NamedTuple

from evokernel.core.errors import UserError, is_out_of_memory
from evokernel.core.memory_limits import memory_shortage, total_memory_bytes
from evokernel.core.records import Record, Task
from evokernel.suites.loader import TaskFile, describe_task

SIZES = ("bench", "small", "held_out")
PROTOCOLS = ("strict", "paper")
TASK_ERRORS = (UserError, MemoryError, RuntimeError)
"""Errors that a task may cause; torch raises RuntimeErrors."""


class LintIssue(Record):
    """One issue of a task."""

    kind: str
    """A kind of `lint_checks`, or `fixed-size`, `too large`, or `unchecked` if the lint could not run."""
    message: str
    size: str = ""
    protocol: str = ""


class LintReport(Record):
    """The lint's result for one task file."""

    id: str
    path: str
    level: int
    category: str
    task: Task | None = None
    error: str = ""
    """Why the task cannot be used."""
    issues: tuple[LintIssue, ...] = ()
    seconds: float = 0.0

    def issues_for(self, protocol: str) -> list[LintIssue]:
        """Return the issues under a protocol, including `unchecked` ones: an unchecked task may be unfit."""
        return [issue for issue in self.issues if issue.protocol in ("", protocol)]


class LintRequest(NamedTuple):
    """A task file to lint."""

    file: TaskFile
    is_full: bool
    """Whether to look for issues by running the task, or only to load it."""


def lint_tasks(files: Sequence[TaskFile], *, is_full: bool, workers: int = 2, timeout_s: float = 180) -> Iterator[LintReport]:
    """Yield one report per file, in the order of completion."""
    reports: SimpleQueue[LintReport] = SimpleQueue()
    requests = [LintRequest(file, is_full) for file in reversed(files)]
    lint_workers = [LintWorker(total_memory_bytes() // workers) for _ in range(min(workers, len(files)))]

    def process_requests(worker: LintWorker) -> None:
        with worker:
            while requests:
                with suppress(IndexError):  # another thread took the last request
                    reports.put(worker.lint(requests.pop(), timeout_s))

    with ThreadPoolExecutor(workers) as pool:
        threads = [pool.submit(process_requests, worker) for worker in lint_workers]
        try:
            for _ in files:
                yield reports.get()
        finally:  # all reports are in, or the caller stopped iterating
            requests.clear()
            for worker in lint_workers:
                worker.kill()
        for thread in threads:
            thread.result()


class LintWorker:
    """A process that lints tasks; it is restarted if it dies."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.process: multiprocessing.context.SpawnProcess | None = None
        self.pipe: Connection | None = None

    def __enter__(self) -> LintWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def lint(self, request: LintRequest, timeout_s: float) -> LintReport:
        """Return the process's report, or a report of its failure."""
        start_s = time.monotonic()
        if self.process is None or not self.process.is_alive():
            self.stop()
            self.start()
        assert self.pipe is not None
        assert self.process is not None
        try:
            self.pipe.send(request)
            if not self.pipe.poll(timeout_s):
                self.stop()
                return failed_report(request.file, f"it took longer than {timeout_s:g} s; increase --timeout", start_s)
            report: LintReport = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            self.stop()
            if code < 0:
                message = f"its process was killed by signal {-code}, possibly because memory ran out; --workers 1 gives it more"
            else:
                message = f"its process exited with code {code}"
            return failed_report(request.file, message, start_s)
        return report.model_copy(update={"seconds": time.monotonic() - start_s})

    def start(self) -> None:
        """Start a new process."""
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=serve_requests, args=(child_pipe, self.memory_bytes), daemon=True)
        self.process.start()
        child_pipe.close()

    def kill(self) -> None:
        """Kill the process; may be called from another thread."""
        if (process := self.process) is not None:
            process.kill()

    def stop(self) -> None:
        """Kill the process and close its pipe."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
        if self.pipe is not None:
            self.pipe.close()
        self.process = self.pipe = None


def serve_requests(pipe: Connection, memory_bytes: int) -> None:
    """Lint tasks in this process until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    import torch

    torch.set_num_threads(1)
    with suppress(EOFError):
        while True:
            request: LintRequest = pipe.recv()
            pipe.send(lint_file(request))


def lint_file(request: LintRequest) -> LintReport:
    """Lint one task file in this process."""
    file = request.file
    report = LintReport(id=file.id, path=str(file.path), level=file.level, category=file.category)
    try:
        task = describe_task(file)
    except TASK_ERRORS as error:
        return report.model_copy(update={"error": describe_error(error)})
    issues: list[LintIssue] = []
    try:
        for issue in find_issues(task) if request.is_full else find_static_issues(task):
            issues.append(issue)
    except TASK_ERRORS as error:
        issues.append(LintIssue(kind="unchecked", message=describe_error(error)))
    return report.model_copy(update={"task": task, "issues": tuple(issues)})


def describe_error(error: Exception) -> str:
    """Return an error on one line."""
    if isinstance(error, UserError):
        return str(error)
    if is_out_of_memory(error):
        return "out of memory; --workers 1 gives each task more"
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def find_issues(task: Task) -> Iterator[LintIssue]:
    """Yield all issues of a task, size by size."""
    from evokernel.reference.shrink import shrink_to_fit
    from evokernel.suites.lint_checks import lint_task

    yield from find_static_issues(task)
    checked_overrides = set()
    for size in SIZES:
        overrides, is_shortened = dict(task.sizes[size]), False
        if size == "bench":
            smaller_sizes = shrink_to_fit(task.source, task.id)
            if is_shortened := smaller_sizes is None:
                smaller_sizes = shrink_to_fit(task.source, task.id, allow_summed_rows=True)
            if smaller_sizes is None:
                yield LintIssue(kind="unchecked", message="too large to run here, even with fewer rows", size=size)
                continue
            overrides = smaller_sizes
        key = tuple(sorted(overrides.items()))
        if key in checked_overrides:
            continue
        checked_overrides.add(key)
        issues = [
            LintIssue(kind=one.kind, message=one.description, size=size, protocol=one.protocol)
            for one in lint_task(task, overrides, thorough=size == "small")
        ]
        yield from issues
        if is_shortened:  # a constant that passes for a short mean also passes for a long one, but not the reverse
            vacuous_protocols = {issue.protocol for issue in issues if issue.kind == "vacuous"}
            message = "this machine can run only shorter sums"
            for protocol in PROTOCOLS:
                if protocol not in vacuous_protocols:
                    yield LintIssue(kind="unchecked", message=message, size=size, protocol=protocol)


def find_static_issues(task: Task) -> Iterator[LintIssue]:
    """Yield the issues that need no run of the task."""
    if "fixed-size" in task.tags:
        yield LintIssue(kind="fixed-size", message="no module-level constant changes its sizes")
    if shortage := memory_shortage(task):
        yield LintIssue(kind="too large", message=f"it needs {shortage}", size="bench")


def failed_report(file: TaskFile, error: str, start_s: float) -> LintReport:
    """Return the report of a task that could not be linted."""
    seconds = time.monotonic() - start_s
    return LintReport(id=file.id, path=str(file.path), level=file.level, category=file.category, error=error, seconds=seconds)


def count_results(reports: list[LintReport], protocol: str) -> tuple[int, int, int, int, int]:
    """Return the number of tasks, of loadable tasks, of tasks with a small size, of tasks without issues, and of vacuous tasks."""
    loadable = [report for report in reports if report.task]
    resizable = [report for report in loadable if report.task and "fixed-size" not in report.task.tags]
    issue_free = [report for report in loadable if not report.issues_for(protocol)]
    vacuous = [report for report in loadable if any(issue.kind == "vacuous" for issue in report.issues_for(protocol))]
    return len(reports), len(loadable), len(resizable), len(issue_free), len(vacuous)
