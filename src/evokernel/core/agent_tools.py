"""The tools that an agent calls: their results as records, the budget of its calls, and the session that answers them.

`evokernel mcp` answers the calls itself, or passes them on to the run that started the agent: both answer with these records.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, MemoryItem, MemoryKind, Outcome, Record, Task

VERIFY_TOOL = "verify"
FREE_TOOLS = ("budget", "submit")
"""Tools that count for no limit and work when a budget is spent: an agent can always hand in what it has."""
MAX_HITS = 20
MAX_LISTED_TASKS = 300


class BudgetExceeded(UserError):
    """The agent has used all its calls, verifications or seconds."""


class BudgetStatus(Record):
    """What an agent has used and what it may use; a limit of None does not exist."""

    calls: int
    """Calls of tools so far, without those that are free."""
    max_calls: int | None
    """Limit of the calls."""
    verifications: int
    """Kernels verified so far."""
    max_verifications: int | None
    """Limit of the verifications."""
    seconds: float
    """Seconds since the session began."""
    max_seconds: float | None
    """Limit of the seconds."""


class TaskSummary(Record):
    """One line of a list of tasks."""

    id: str
    """`suite/name`."""
    category: str
    """Group of the task in reports."""
    level: int
    """Level of the task."""


class TaskList(Record):
    """The tasks that a specification names."""

    tasks: tuple[TaskSummary, ...]
    """The first tasks, in order."""
    total: int
    """Number of all tasks that the specification names."""


class ItemSummary(Record):
    """A memory item without its text and code."""

    id: str
    """Id of the item, to open it with."""
    kind: MemoryKind
    """Kind of the item."""
    title: str
    """One line about it."""
    similarity: float | None = None
    """Similarity to the query; None if the item was not searched for."""
    q: float | None = None
    """Value Q of the item; None if it has none or if values are not reported."""
    speedup: float | None = None
    """Speedup of a correct kernel over its first baseline; None for cards and failures."""


class TaskDescription(Record):
    """A task as an agent sees it: without the hidden size."""

    task: Task
    """The task; its sizes do not contain the hidden one."""
    backend: str
    """The kernel language."""
    file: str
    """Name of the file that holds the kernel."""
    text: str
    """Reference, entry point, rules, sizes and tolerances, as a prompt states them."""
    cards: tuple[ItemSummary, ...] = ()
    """Memory items that fit the task; opening one costs a call."""


class KernelResult(Record):
    """A kernel of the session with its outcome."""

    task: str
    """Id of the task."""
    candidate: Candidate
    """The kernel."""
    outcome: Outcome
    """The verifier's record of it."""


class MemoryHits(Record):
    """Result of a search in memory, most similar first."""

    hits: tuple[ItemSummary, ...]
    """The items found."""


class OpenedItem(Record):
    """A memory item in full."""

    item: MemoryItem
    """The item with text and code."""
    q: float | None = None
    """Value Q of the item; None if it has none or if values are not reported."""


class Submission(Record):
    """A kernel that the agent handed in."""

    task: str
    """Id of the task."""
    candidate: str
    """Id of the kernel."""
    message: str
    """What happens to it."""
    outcome: Outcome | None = None
    """Outcome of the kernel, if it was verified in this session."""


RESULT_TYPES: Mapping[str, type[Record]] = {
    "list_tasks": TaskList,
    "show_task": TaskDescription,
    VERIFY_TOOL: KernelResult,
    "profile": KernelResult,
    "search_memory": MemoryHits,
    "show_item": OpenedItem,
    "submit": Submission,
    "budget": BudgetStatus,
}
"""The tools and what each returns."""


class CallBudget:
    """Counts calls, verifications and seconds; refuses what exceeds a limit. Thread-safe; the seconds count from its construction."""

    def __init__(
        self,
        calls: int | None = None,
        verifications: int | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_calls, self.max_verifications, self.max_seconds, self.clock = calls, verifications, seconds, clock
        self.calls, self.verifications, self.started_at = 0, 0, clock()
        self.lock = threading.Lock()

    def status(self) -> BudgetStatus:
        """What was used, and the limits."""
        return BudgetStatus(
            calls=self.calls,
            max_calls=self.max_calls,
            verifications=self.verifications,
            max_verifications=self.max_verifications,
            seconds=round(self.clock() - self.started_at, 1),
            max_seconds=self.max_seconds,
        )

    def spend(self, tool: str) -> None:
        """Count a call. Raises BudgetExceeded, and counts nothing, if a limit is reached.

        A verification is counted when it starts: a call that names no kernel, task or backend costs none.
        """
        if tool in FREE_TOOLS:
            return
        with self.lock:
            self.check_seconds()
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise BudgetExceeded(f"the budget of {self.max_calls} calls is spent. Submit your best kernel with the tool 'submit'.")
            if tool == VERIFY_TOOL:
                self.check_verifications()
            self.calls += 1

    def spend_verification(self) -> None:
        """Count a verification that is about to start. Raises BudgetExceeded, and counts nothing, if a limit is reached."""
        with self.lock:
            self.check_seconds()
            self.check_verifications()
            self.verifications += 1

    def check_seconds(self) -> None:
        """Raise BudgetExceeded if the time is over."""
        if self.max_seconds is not None and self.clock() - self.started_at >= self.max_seconds:
            raise BudgetExceeded(f"the budget of {self.max_seconds:g} seconds is spent. Submit your best kernel with the tool 'submit'.")

    def check_verifications(self) -> None:
        """Raise BudgetExceeded if no verification is left."""
        if self.max_verifications is not None and self.verifications >= self.max_verifications:
            raise BudgetExceeded(
                f"the budget of {self.max_verifications} verifications is spent. "
                "Submit a verified kernel: the tool 'submit' with candidate=ID, the id that 'verify' gave it."
            )


class ToolSession(ABC):
    """Answers the calls of one agent. Several threads may call it at once."""

    def __init__(self, budget: CallBudget) -> None:
        self.budget = budget
        self.kernels: dict[str, KernelResult] = {}
        """The kernels verified so far by the id of the candidate, in order."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Record:
        """Answer one call. Raises UserError for a mistake of the agent or a spent budget, InfraError if no worker could verify."""
        if tool not in RESULT_TYPES:
            raise UserError(f"there is no tool '{tool}'. Tools: {', '.join(RESULT_TYPES)}.")
        self.budget.spend(tool)
        if tool == "budget":
            return self.budget.status()
        handler: Callable[..., Record] = getattr(self, tool)
        return handler(**arguments)

    @abstractmethod
    def list_tasks(self, spec: str = "") -> TaskList:
        """The tasks that a specification names."""

    @abstractmethod
    def show_task(self, task: str = "", backend: str = "", cards: bool = False) -> TaskDescription:
        """A task with its rules."""

    @abstractmethod
    def verify(self, task: str = "", kernel: str = "", files: dict[str, str] | None = None, backend: str = "") -> KernelResult:
        """Verify a kernel through all gates. Counts a verification once the arguments are found to be valid."""

    def profile(self, candidate: str = "") -> KernelResult:
        """A kernel that this session verified, by id; by default the last one."""
        if not self.kernels:
            raise UserError("no kernel was verified yet. Verify one with the tool 'verify' first.")
        if candidate and candidate not in self.kernels:
            raise UserError(f"no kernel '{candidate}' was verified in this session. Kernels: {', '.join(self.kernels)}.")
        return self.kernels[candidate or next(reversed(self.kernels))]

    @abstractmethod
    def search_memory(self, query: str, kinds: list[MemoryKind] | None = None, limit: int = 5, backend: str = "") -> MemoryHits:
        """Search the memory bank."""

    @abstractmethod
    def show_item(self, id: str) -> OpenedItem:
        """A memory item with its text and code."""

    @abstractmethod
    def submit(
        self, task: str = "", candidate: str = "", kernel: str = "", files: dict[str, str] | None = None, backend: str = ""
    ) -> Submission:
        """Hand in a verified kernel by its id, or another one."""

    def store_kernel(self, kernel: KernelResult) -> KernelResult:
        """Remember a verified kernel as the last one."""
        self.kernels.pop(kernel.candidate.id, None)
        self.kernels[kernel.candidate.id] = kernel
        return kernel


def kernel_files(file_name: str, kernel: str, files: Mapping[str, str] | None) -> dict[str, str]:
    """The files of a kernel that is given as the text of its one file, or as files. Raises UserError if both or neither are given."""
    if bool(kernel.strip()) == bool(files):
        raise UserError(f"give either 'kernel', the text of {file_name}, or 'files', the text of each file by its name")
    return dict(files) if files else {file_name: kernel}


def hide_sizes(task: Task) -> Task:
    """The task without its hidden size."""
    return task.model_copy(update={"sizes": {name: size for name, size in task.sizes.items() if name != "held_out"}})


def summarize_item(item: MemoryItem, similarity: float | None = None, q: float | None = None) -> ItemSummary:
    """The line of a list about an item."""
    return ItemSummary(id=item.id, kind=item.kind, title=item.title, similarity=similarity, q=q, speedup=item.speedup)


def make_host_configuration(options: Sequence[str]) -> dict[str, Any]:
    """The JSON that most MCP hosts read to start `evokernel mcp` with these options."""
    return {"mcpServers": {"evokernel": {"command": sys.executable, "args": ["-m", "evokernel.cli.main", "mcp", *options]}}}
