"""Looks at many tasks, each in a process that may be slow, run out of memory or die: what they are, and what is wrong with them."""

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

from evokernel.app.resources import machine_memory, too_large
from evokernel.core.errors import UserError, is_out_of_memory
from evokernel.core.records import Record, Task
from evokernel.tasks.loader import TaskFile, describe

SIZES = ("bench", "small", "held_out")
PROTOCOLS = ("strict", "paper")
TROUBLE = (UserError, MemoryError, RuntimeError)
"""What a task may cause; torch's own errors are RuntimeErrors."""


class Flaw(Record):
    """One thing that is wrong with a task."""

    kind: str
    """A kind of `reference.audit`, or `fixed-size`, `too large`, or `unlooked` where it could not be looked at."""
    what: str
    size: str = ""
    protocol: str = ""


class Look(Record):
    """What was found out about one task file."""

    id: str
    path: str
    level: int
    category: str
    task: Task | None = None
    error: str = ""
    """Why it cannot be used."""
    flaws: tuple[Flaw, ...] = ()
    seconds: float = 0.0

    def wrong(self, protocol: str) -> list[Flaw]:
        """Flaws that count under a protocol: what nobody could look at is not known to be sound."""
        return [flaw for flaw in self.flaws if flaw.protocol in ("", protocol)]


class Wish(NamedTuple):
    """What to look at."""

    file: TaskFile
    audit: bool
    """Whether to look for flaws, or only whether it loads."""


def survey(files: Sequence[TaskFile], *, audit: bool, workers: int = 2, timeout_s: float = 180) -> Iterator[Look]:
    """One look per file, as they come in."""
    done: SimpleQueue[Look] = SimpleQueue()
    todo = [Wish(file, audit) for file in reversed(files)]

    crew = [Worker(machine_memory() // workers) for _ in range(min(workers, len(files)))]

    def work(worker: Worker) -> None:
        with worker:
            while todo:
                with suppress(IndexError):  # another was quicker
                    done.put(worker.look(todo.pop(), timeout_s))

    with ThreadPoolExecutor(workers) as pool:
        threads = [pool.submit(work, worker) for worker in crew]
        try:
            for _ in files:
                yield done.get()
        finally:  # all is known, or nobody waits for the rest
            todo.clear()
            for worker in crew:
                worker.kill()
        for one in threads:
            one.result()


class Worker:
    """A process that looks at tasks; a new one when it was lost."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.process: multiprocessing.context.SpawnProcess | None = None
        self.pipe: Connection | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def look(self, wish: Wish, timeout_s: float) -> Look:
        """What the process found out; where it did not answer, that."""
        started = time.monotonic()
        if self.process is None or not self.process.is_alive():
            self.stop()
            self.start()
        assert self.pipe is not None
        assert self.process is not None
        try:
            self.pipe.send(wish)
            if not self.pipe.poll(timeout_s):
                self.stop()
                return failed(wish.file, f"took more than {timeout_s:g} s; --timeout gives it more", started)
            found: Look = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            self.stop()
            how = (
                f"was stopped by signal {-code}, as when memory is out (--workers 1 gives it more)"
                if code < 0
                else f"ended with code {code}"
            )
            return failed(wish.file, f"the process that ran it {how}", started)
        return found.model_copy(update={"seconds": time.monotonic() - started})

    def start(self) -> None:
        """Another process."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.memory), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        if (process := self.process) is not None:
            process.kill()

    def stop(self) -> None:
        """Ends the process and lets go of it."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
        if self.pipe is not None:
            self.pipe.close()
        self.process = self.pipe = None


def serve(pipe: Connection, memory: int) -> None:
    """Looks at what is asked for until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    import torch

    torch.set_num_threads(1)
    with suppress(EOFError):
        while True:
            wish: Wish = pipe.recv()
            pipe.send(look(wish))


def look(wish: Wish) -> Look:
    """At one task file, in this process."""
    file = wish.file
    found = Look(id=file.id, path=str(file.path), level=file.level, category=file.category)
    try:
        task = describe(file)
    except TROUBLE as error:
        return found.model_copy(update={"error": said(error)})
    flaws: list[Flaw] = []
    try:
        for flaw in flaws_of(task) if wish.audit else standing(task):
            flaws.append(flaw)
    except TROUBLE as error:
        flaws.append(Flaw(kind="unlooked", what=said(error)))
    return found.model_copy(update={"task": task, "flaws": tuple(flaws)})


def said(error: Exception) -> str:
    """One line for an error."""
    if isinstance(error, UserError):
        return str(error)
    if is_out_of_memory(error):
        return "memory is out; --workers 1 gives each task more"
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def flaws_of(task: Task) -> Iterator[Flaw]:
    """Everything that is wrong with a task, size by size."""
    from evokernel.reference.shrink import narrowed
    from evokernel.reference.task_lint import audit

    yield from standing(task)
    seen = set()
    for size in SIZES:
        overrides, shorter = dict(task.sizes[size]), False
        if size == "bench":
            fewer = narrowed(task.source, task.id)
            if shorter := fewer is None:
                fewer = narrowed(task.source, task.id, sums=True)
            if fewer is None:
                yield Flaw(kind="unlooked", what="too large to run here, also with fewer rows", size=size)
                continue
            overrides = fewer
        key = tuple(sorted(overrides.items()))
        if key in seen:
            continue
        seen.add(key)
        flaws = [
            Flaw(kind=one.kind, what=one.what, size=size, protocol=one.protocol) for one in audit(task, overrides, thorough=size == "small")
        ]
        yield from flaws
        if shorter:  # a constant that passes for a short mean passes for a long one, but not the other way round
            known = {flaw.protocol for flaw in flaws if flaw.kind == "vacuous"}
            what = "only shorter sums can be run here"
            yield from (Flaw(kind="unlooked", what=what, size=size, protocol=protocol) for protocol in PROTOCOLS if protocol not in known)


def standing(task: Task) -> Iterator[Flaw]:
    """What is known without a further run."""
    if "fixed-size" in task.tags:
        yield Flaw(kind="fixed-size", what="no constant of the module changes its sizes")
    if why := too_large(task):
        yield Flaw(kind="too large", what=f"it needs {why}", size="bench")


def failed(file: TaskFile, why: str, started: float) -> Look:
    """A look that came to nothing."""
    seconds = time.monotonic() - started
    return Look(id=file.id, path=str(file.path), level=file.level, category=file.category, error=why, seconds=seconds)
