"""Answers the calls of an agent outside a run, with a pool of workers and a memory bank."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.app.verification_pool import PlannedVerification, VerificationPool
from evokernel.core import paths
from evokernel.core.agent_tools import (
    MAX_HITS,
    MAX_LISTED_TASKS,
    CallBudget,
    ItemSummary,
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
from evokernel.core.config import resolve_config
from evokernel.core.errors import UserError
from evokernel.core.plugins import find_plugin, make_plugin, plugin_names
from evokernel.core.records import MemoryItem, MemoryKind, Task
from evokernel.generators.prompting import PromptBuilder
from evokernel.memory.bank import Bank, is_hidden
from evokernel.memory.index import ExactIndex, quantize_vectors
from evokernel.memory.item_rows import embedding_text
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.reports.outcome_report import outcome_record
from evokernel.suites.loader import find_task_files, suite_names

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.core.protocols import Embedder


class LocalSession(ToolSession):
    """`backend` is the language of kernels unless a call names one. `reads_paths`: whether a call may name task files of this machine.

    Submitted kernels are written to `out`, one folder for each task.
    """

    def __init__(
        self,
        pool: VerificationPool,
        budget: CallBudget,
        *,
        backend: str,
        memory: BankLocation,
        embedder: str = "hash",
        out: Path = Path("submissions"),
        reads_paths: bool = True,
    ) -> None:
        super().__init__(budget)
        find_plugin("backend", backend)
        self.pool, self.backend, self.memory, self.out, self.reads_paths = pool, backend, memory, out, reads_paths
        self.embedder: Embedder = make_plugin("embedder", embedder)
        self.tasks: dict[tuple[str, str], Task] = {}
        """Tasks of earlier calls by id and backend."""
        self.lock = threading.Lock()

    def list_tasks(self, spec: str = "") -> TaskList:
        """The tasks of a suite, or of all suites."""
        files = find_task_files(self.check_spec(spec) if spec else ",".join(suite_names()))
        rows = tuple(TaskSummary(id=file.id, category=file.category, level=file.level) for file in files[:MAX_LISTED_TASKS])
        return TaskList(tasks=rows, total=len(files))

    def show_task(self, task: str = "", backend: str = "", cards: bool = False) -> TaskDescription:
        """A task with its rules; with `cards`, also the knowledge cards that fit it."""
        name = backend or self.backend
        described = self.load_task(task, name)
        prompts = PromptBuilder(name)
        fitting = tuple(summarize_item(card) for card in load_seed_cards(name) if fits_task(card, described)) if cards else ()
        return TaskDescription(
            task=hide_sizes(described), backend=name, file=prompts.file, text=prompts.describe_task(described), cards=fitting
        )

    def verify(self, task: str = "", kernel: str = "", files: dict[str, str] | None = None, backend: str = "") -> KernelResult:
        """Verify a kernel through all gates. Files are never read from this machine: a call holds their text."""
        return self.verify_planned(self.plan(task, kernel, files, backend))

    def plan(self, task: str, kernel: str, files: dict[str, str] | None, backend: str) -> PlannedVerification:
        """Check the arguments of a call that names a kernel. Raises UserError for a mistake."""
        name = backend or self.backend
        texts = kernel_files(find_plugin("backend", name).file_name, kernel, files)
        return self.pool.plan(texts, self.load_task(task, name), backend=name)

    def verify_planned(self, planned: PlannedVerification) -> KernelResult:
        """Verify a kernel whose call is valid; only this counts as a verification."""
        self.budget.spend_verification()
        outcome = self.pool.submit(planned).result()
        with self.lock:
            return self.store_kernel(KernelResult(task=planned.task.id, candidate=planned.candidate, outcome=outcome))

    def search_memory(self, query: str, kinds: list[MemoryKind] | None = None, limit: int = 5, backend: str = "") -> MemoryHits:
        """Search the bank; if it has no such items, or without a bank, the knowledge cards that come with the backend."""
        name, count = backend or self.backend, max(1, min(limit, MAX_HITS))
        find_plugin("backend", name)
        if self.has_bank():
            with Bank.open_reader(self.memory) as bank:
                hits = bank.search(query, self.embedder, count, kinds=tuple(kinds or ()), backend=name)
                values = {value.item: value.q for value in bank.list_values(stage="draft")}
            if visible := [hit for hit in hits if not is_hidden(hit.item)]:
                return MemoryHits(hits=tuple(summarize_item(hit.item, hit.similarity, values.get(hit.item.id)) for hit in visible))
        cards = [card for card in load_seed_cards(name) if not kinds or card.kind in kinds]
        return MemoryHits(hits=search_cards(query, cards, self.embedder, count))

    def show_item(self, id: str) -> OpenedItem:
        """An item of the bank, or a knowledge card."""
        backend = id.partition("/")[0]
        cards = load_seed_cards(backend) if backend in plugin_names("backend") else []
        card = next((card for card in cards if card.id == id), None)
        if card:
            return OpenedItem(item=card)
        entry = None
        if self.has_bank():
            with Bank.open_reader(self.memory) as bank:
                entry = bank.find_item(id)
        if entry is None:
            raise UserError(f"there is no memory item '{id}'. Search for items with the tool 'search_memory'.")
        if entry.is_revoked or is_hidden(entry.item):
            raise UserError(f"memory item '{id}' is not shown, because its code cheats or was revoked. Choose another item.")
        return OpenedItem(item=entry.item)

    def submit(
        self, task: str = "", candidate: str = "", kernel: str = "", files: dict[str, str] | None = None, backend: str = ""
    ) -> Submission:
        """Write a correct kernel and its outcome to the folder of submissions; one that was not verified yet is verified first."""
        if candidate:
            result = self.profile(candidate)
        else:
            planned = self.plan(task, kernel, files, backend)
            known = self.kernels.get(planned.candidate.id)
            result = known if known and known.task == planned.task.id else self.verify_planned(planned)
        if not result.outcome.feasible:
            raise UserError(f"kernel {result.candidate.id} is not correct, so it was not submitted. Submit one that passed every gate.")
        folder = self.out / result.task
        record = outcome_record(self.load_task(result.task, result.candidate.backend), result.candidate, result.outcome)
        with self.lock:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                paths.write_files(folder, result.candidate.files)
                paths.write_text(folder / "outcome.json", json.dumps(record, indent=1) + "\n")
            except OSError as error:
                raise UserError(f"cannot write to {folder}: {error.strerror}. Choose another folder with --out.") from error
        return Submission(task=result.task, candidate=result.candidate.id, message=f"written to {folder}", outcome=result.outcome)

    def load_task(self, spec: str, backend: str) -> Task:
        """Load the task that a call names, at the size at which kernels of the backend are timed; an id of an earlier call is enough."""
        if not spec:
            raise UserError("name a task, such as starter/softmax. The tool 'list_tasks' lists them.")
        find_plugin("backend", backend)
        if (spec, backend) not in self.tasks:
            config = resolve_config(None, base=self.pool.settings | {"backend": self.pool.backend_settings(backend)})
            task = self.pool.load_task(self.check_spec(spec), config)
            self.tasks[task.id, backend] = task
            return task
        return self.tasks[spec, backend]

    def check_spec(self, spec: str) -> str:
        """Refuse paths of this machine unless they are allowed."""
        if not self.reads_paths and any(part.strip().partition("/")[0] not in suite_names() for part in spec.split(",")):
            raise UserError(f"'{spec}' names no suite. This server takes only tasks of its suites, such as starter/softmax")
        return spec

    def has_bank(self) -> bool:
        """Whether the bank exists and is no empty file; one on a server always does."""
        return not isinstance(self.memory, Path) or (self.memory.is_file() and self.memory.stat().st_size > 0)


def fits_task(card: MemoryItem, task: Task) -> bool:
    """Whether a card is for every task, or for a family of operators in this one and for its amount of work."""
    return card.always_include or (card.suits_work(task) and bool({card.family, *card.families} & {task.family, *task.families}))


def search_cards(query: str, cards: Sequence[MemoryItem], embedder: Embedder, count: int) -> tuple[ItemSummary, ...]:
    """The cards most similar to a query, most similar first."""
    if not cards:
        return ()
    vectors = quantize_vectors(embedder.embed([query, *(embedding_text(card) for card in cards)]))
    index = ExactIndex(vectors.shape[1])
    for card, vector in zip(cards, vectors[1:], strict=True):
        index.set_row(None, card, vector)
    return tuple(summarize_item(cards[row], similarity) for row, similarity in index.search(vectors[0], count, (), None, None, None))
