"""Answers the calls of an agent within one attempt, and remembers what it tried, opened and submitted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from evokernel.core.agent_tools import (
    MAX_HITS,
    CallBudget,
    KernelResult,
    MemoryHits,
    OpenedItem,
    Submission,
    TaskDescription,
    TaskList,
    TaskSummary,
    ToolSession,
    hide_sizes,
    kernel_files,
    summarize_item,
)
from evokernel.core.errors import InfraError, UserError
from evokernel.core.protocols import AttemptTools, MemoryReader
from evokernel.core.records import Candidate, Context, ContextRef, MemoryItem, MemoryKind, Record, ToolUse, Trial
from evokernel.core.state import State, hidden_item_ids
from evokernel.generators.prompt_text import describe_outcome
from evokernel.generators.prompting import PromptBuilder
from evokernel.llm.render import one_line


class AttemptSession(ToolSession):
    """The session of one attempt: one task, the run's verifier, and memory as it was when the attempt began."""

    def __init__(
        self,
        state: State,
        context: Context,
        tools: AttemptTools | None,
        prompts: PromptBuilder,
        budget: CallBudget,
        *,
        has_memory: bool = True,
    ) -> None:
        super().__init__(budget)
        self.state, self.context, self.tools, self.prompts, self.has_memory = state, context, tools, prompts, has_memory
        self.hidden_ids = hidden_item_ids(state, context)
        self.trials: dict[int, Trial] = {}
        """Verified kernels by the order in which they were requested."""
        self.opened: dict[str, ContextRef] = {}
        """Opened memory items by id, in order."""
        self.submitted: Candidate | None = None
        self.log: list[str] = []
        self.lock = threading.Lock()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Record:
        """Answer one call and write it down; refused calls, too."""
        words = ", ".join(f"{name}={one_line(str(value), 60)!r}" for name, value in arguments.items() if value)
        try:
            result = super().call(tool, arguments)
        except (UserError, InfraError) as error:
            self.log.append(f"{tool}({words}): refused, {one_line(str(error))}")
            raise
        outcome = f": {describe_outcome(result.outcome)}" if isinstance(result, KernelResult) else ""
        self.log.append(f"{tool}({words}){outcome}")
        return result

    def list_tasks(self, spec: str = "") -> TaskList:
        """The one task of the attempt."""
        task = self.state.task
        return TaskList(tasks=(TaskSummary(id=task.id, category=task.category, level=task.level),), total=1)

    def show_task(self, task: str = "", backend: str = "", cards: bool = False) -> TaskDescription:
        """The task of the attempt; with `cards`, the memory items that the policy chose for it."""
        self.check_names(task, backend)
        items = [entry for entry in self.context.items if entry.role != "nothing"] if cards and self.has_memory else []
        return TaskDescription(
            task=hide_sizes(self.state.task),
            backend=self.prompts.backend,
            file=self.prompts.file,
            text=self.prompts.describe_task(self.state.task),
            cards=tuple(summarize_item(entry.item, q=entry.q) for entry in items),
        )

    def verify(self, task: str = "", kernel: str = "", files: dict[str, str] | None = None, backend: str = "") -> KernelResult:
        """Verify a kernel with the run's executor."""
        candidate, tools = self.make_candidate(task, kernel, files, backend), self.require_tools()
        self.budget.spend_verification()
        with self.lock:
            number = len(self.trials)
            self.trials[number] = Trial(candidate=candidate)
        outcome = tools.verify(candidate, number)
        with self.lock:
            self.trials[number] = Trial(candidate=candidate, outcome=outcome)
            return self.store_kernel(KernelResult(task=self.state.task.id, candidate=candidate, outcome=outcome))

    def search_memory(self, query: str, kinds: list[MemoryKind] | None = None, limit: int = 5, backend: str = "") -> MemoryHits:
        """Search the run's memory; the values are those of this attempt's stage."""
        self.check_names("", backend)
        memory, count = self.require_memory(), max(1, min(limit, MAX_HITS))
        may_hide = bool(self.hidden_ids) or not self.context.include_history
        hits = memory.search(query, count + len(self.state.attempts) * 2 * may_hide, tuple(kinds or ()))
        visible = [hit for hit in hits if self.is_visible(hit.item)][:count]
        values = memory.values([hit.item.id for hit in visible], self.context.stage)
        return MemoryHits(hits=tuple(summarize_item(hit.item, hit.similarity, known_value(hit.item, values)) for hit in visible))

    def show_item(self, id: str) -> OpenedItem:
        """Open a memory item. From now on it belongs to what the attempt was shown, so its value learns from the reward."""
        memory = self.require_memory()
        item = next((item for item in memory.get([id]) if self.is_visible(item)), None)
        if item is None:
            raise UserError(f"there is no memory item '{id}'. Search for items with the tool 'search_memory'.")
        entry = next((entry for entry in self.context.items if entry.item.id == id), None)
        value = memory.values([id], self.context.stage)[id]
        q = entry.q if entry else None if item.kind == "api" else value.q
        with self.lock:
            self.opened.setdefault(id, entry.ref if entry else ContextRef(id=id, role=item.kind, q=q))
        return OpenedItem(item=item, q=q)

    def submit(
        self, task: str = "", candidate: str = "", kernel: str = "", files: dict[str, str] | None = None, backend: str = ""
    ) -> Submission:
        """Choose the candidate of the attempt. A later submission replaces it."""
        self.check_names(task, backend)
        chosen = self.profile(candidate).candidate if candidate else self.make_candidate(task, kernel, files, backend)
        result = self.kernels.get(chosen.id)
        self.submitted = chosen
        message = "it is the result of this attempt; the run verifies it with other inputs when you end"
        return Submission(task=self.state.task.id, candidate=chosen.id, message=message, outcome=result.outcome if result else None)

    def choose_candidate(self) -> Candidate | None:
        """The submitted kernel, or else the fastest correct one; None if there is neither."""
        correct = [trial for trial in self.trials.values() if trial.outcome and trial.outcome.feasible]
        fastest = min(correct, key=lambda trial: (trial.outcome and trial.outcome.latency_us) or float("inf"), default=None)
        return self.submitted or (fastest.candidate if fastest else None)

    def make_record(self, ending: str) -> ToolUse:
        """What the agent did, for the journal."""
        status = self.budget.status()
        return ToolUse(
            calls=status.calls,
            trials=tuple(self.trials[number] for number in sorted(self.trials)),
            is_submitted=self.submitted is not None,
            seconds=status.seconds,
            ending=ending,
        )

    def make_candidate(self, task: str, kernel: str, files: dict[str, str] | None, backend: str) -> Candidate:
        """A candidate from the arguments of a call."""
        self.check_names(task, backend)
        return Candidate(backend=self.prompts.backend, files=kernel_files(self.prompts.file, kernel, files), notes="written by the agent")

    def check_names(self, task: str, backend: str) -> None:
        """Refuse another task or backend than those of the attempt."""
        if task not in ("", self.state.task.id):
            raise UserError(f"this session is for the task {self.state.task.id} only")
        if backend not in ("", self.prompts.backend):
            raise UserError(f"this session is for the backend {self.prompts.backend} only")

    def is_visible(self, item: MemoryItem) -> bool:
        """Whether the agent may see an item: independent samples do not see earlier attempts on their task, others not the hidden ones."""
        return item.id not in self.hidden_ids and (self.context.include_history or item.task != self.state.task.id)

    def require_tools(self) -> AttemptTools:
        """The tools of the run. Raises UserError outside a run."""
        if self.tools is None:
            raise UserError("this agent was not started by a run, so it can neither verify kernels nor search memory")
        return self.tools

    def require_memory(self) -> MemoryReader:
        """The memory of the run. Raises UserError if the agent may not read it."""
        if not self.has_memory:
            raise UserError("this agent has no access to memory (setting generator.memory)")
        return self.require_tools().memory


def known_value(item: MemoryItem, values: Mapping[str, Any]) -> float | None:
    """The value of an item that was updated at least once."""
    value = values.get(item.id)
    return value.q if value and value.visits and item.kind != "api" else None
