"""Rewinding: makes slower kernels from fast ones by removing one optimisation at a time, and keeps each verified pair as a practice item.

A rewinding is a run with its own folder. The first attempt on a task verifies the fast kernel; each further one verifies it without one
optimisation. So pairs have a journal, provenance and costs like everything else that memory learns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evokernel.app import factory
from evokernel.core import final_results, paths, plugins
from evokernel.core.bank_uri import BankLocation
from evokernel.core.config import RunConfig
from evokernel.core.environment import describe_hardware
from evokernel.core.errors import UserError
from evokernel.core.protocols import Executor, Generator, MemoryStore, RewindingGenerator
from evokernel.core.records import Attempt, Candidate, Context, MemoryItem, Outcome, Record, Reply, Stage, Task
from evokernel.core.run import Run, new_run_id
from evokernel.core.state import State
from evokernel.engine.loop import Engine
from evokernel.memory.bank import Bank
from evokernel.memory.practice_pairs import make_practice_item, measure_worth

log = logging.getLogger(__name__)
KERNELS_FILE = "kernels.jsonl"
"""File of the run folder with the fast kernels, so that an interrupted rewinding can continue."""


class FastKernel(Record):
    """A kernel to rewind."""

    task: Task
    candidate: Candidate
    origin: str = ""
    """Id of the kernel's trace in memory; empty for a kernel from a file."""


class Pair(NamedTuple):
    """A fast kernel and the same kernel without one optimisation."""

    task: Task
    fast: Attempt
    slow: Attempt
    item: MemoryItem | None
    """The practice item; None if the slower kernel failed or is not significantly slower."""

    @property
    def worth(self) -> float | None:
        """How many times as fast the fast kernel is; None if the pair shows no gain."""
        return measure_worth(self.fast, self.slow)


class StartFromFirst:
    """A policy for rewinding: the first attempt is a draft, all others start from it; nothing is learned."""

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Return the context without memory items."""
        if not state.attempts:
            return Context(stage=Stage.DRAFT)
        return Context(stage=Stage.REFINE, start_point=state.attempts[0])

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Learn nothing: slower kernels were asked for."""


class KernelRewinder:
    """A generator that returns the fast kernel first, and then lets another generator remove one optimisation at a time."""

    def __init__(self, generator: RewindingGenerator, kernels: Iterable[FastKernel]) -> None:
        self.generator, self.kernels = generator, {kernel.task.id: kernel for kernel in kernels}

    def write(self, state: State, context: Context) -> Reply:
        """Return the fast kernel, or a kernel without one of its optimisations."""
        return self.generator.rewind(state, context) if state.attempts else Reply(candidate=self.kernels[state.task.id].candidate)

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: the pair is the lesson."""
        return None

    def distill(self, task: Task, attempt: Attempt, earlier: Sequence[Attempt]) -> list[MemoryItem]:
        """Return the practice item of the first attempt and this one, if it is worth storing."""
        item = make_practice_item(task, earlier[0], attempt, self.kernels[task.id].origin) if earlier else None
        return [item] if item else []


class RewindEngine(Engine):
    """The loop, with as many attempts on a task as its kernel has optimisations, and one for the kernel itself."""

    max_variants = 8

    def remaining_attempts(self, task: Task) -> int:
        """Number of attempts that a task still gets; none after a fast kernel that fails."""
        attempts = self.history[task.id]
        if not attempts:
            return 1
        if not attempts[0].outcome.feasible or not isinstance(self.generator, KernelRewinder):
            return 0
        count = self.generator.generator.count_optimisations(task, attempts[0].candidate)
        return max(0, 1 + min(self.max_variants, self.max_variants if count is None else count) - len(attempts))

    def make_pairs(self) -> Iterator[Pair]:
        """Verify all kernels; yield each pair when its slower kernel is verified."""
        tasks = {task.id: task for task in self.run.tasks}
        for attempt in self.make_attempts():
            fast = self.history[attempt.task][0]
            if attempt.id != fast.id:
                items = self.distill(tasks[attempt.task], attempt, [fast])
                yield Pair(tasks[attempt.task], fast, attempt, items[0] if items else None)

    def failed_kernels(self) -> list[Attempt]:
        """Return the attempts of fast kernels that are not correct here."""
        firsts = [self.history[task.id][0] for task in self.run.tasks if self.history[task.id]]
        return [attempt for attempt in firsts if not attempt.outcome.feasible]

    def kernels_without_variants(self) -> list[str]:
        """Return the tasks whose kernel is correct but has no optimisation that the generator can remove."""
        return [task.id for task in self.run.tasks if [a.outcome.feasible for a in self.history[task.id]] == [True]]


def find_kernels_in_runs(folders: Sequence[Path]) -> tuple[RunConfig, list[FastKernel]]:
    """Return the best kernel of each task in these runs, and the settings of the first run."""
    fastest: dict[str, tuple[float, FastKernel]] = {}
    runs = [Run.open(folder) for folder in folders]
    config = runs[0].config
    for run in runs:
        if run.config.backend != config.backend:
            raise UserError(f"{run.folder} is a run of another backend or backend settings than {runs[0].folder}. Rewind them one by one.")
        attempts, finals = run.attempts(), final_results.read_final_results(run.folder)
        for task in run.tasks:
            best = final_results.best_surviving((a for a in attempts if a.task == task.id), finals)
            if best and best.outcome.latency_us:
                kernel = FastKernel(task=task, candidate=best.candidate, origin=best.memory_id)
                rivals = [fastest[task.id]] if task.id in fastest else []
                fastest[task.id] = min([*rivals, (best.outcome.latency_us, kernel)], key=lambda pair: pair[0])
    if not fastest:
        raise UserError(f"no correct kernel in {', '.join(map(str, folders))}. Resume the run, or name another one.")
    return config, [kernel for _, kernel in fastest.values()]


def find_kernels_in_bank(path: BankLocation, config: RunConfig) -> list[FastKernel]:
    """Return the fastest kernel of each task in a bank; tasks that cannot be loaded here are left out with a warning."""
    backend = config.plugin_name("backend")
    file = plugins.find_plugin("backend", backend).file_name
    fastest: dict[str, MemoryItem] = {}
    with Bank.open_reader(path) as bank:
        for entry in bank.find_items(kind="trace", backend=backend):
            item = entry.item
            if item.task and item.feasible and item.latency_us and item.latency_us < (latency_us(fastest.get(item.task)) or float("inf")):
                fastest[item.task] = item
    kernels = []
    for task_id, item in fastest.items():
        try:
            (task,) = factory.load_sized_tasks(config, task_id)
        except (UserError, ValueError) as error:
            log.warning("%s is left out: %s", task_id, error)
            continue
        kernels.append(FastKernel(task=task, candidate=Candidate(backend=backend, files={file: item.code}), origin=item.id))
    if not kernels:
        raise UserError(f"{path} has no correct kernel of backend '{backend}'. Choose another --backend, or name a run or a --kernel.")
    return kernels


def latency_us(item: MemoryItem | None) -> float | None:
    """Return the latency of an item, if there is one."""
    return item.latency_us if item else None


def create_rewinding(config: RunConfig, kernels: Sequence[FastKernel], folder: Path | None, max_variants: int) -> RewindEngine:
    """Create the run of a rewinding, or continue the one in `folder`. Raises UserError if the generator cannot rewind."""
    if folder and (folder / "run.toml").exists():
        run = Run.open(folder)
        return assemble(run, factory.make_part(run.config, "executor"), load_kernels(folder), max_variants)
    fixed = {"budget": 1, "schedule": "rounds", "stop_when": "budget", "min_novelty": 0.0, "drafts_per_attempt": 1, "fresh": False}
    fixed |= {"tuning_trials": 0}  # both kernels run with the values they declare; tuning would replace what was removed
    parts_config = config.model_copy(update=fixed)
    config = parts_config.model_copy(update={"id": config.id or new_run_id(["rewind", config.plugin_name("backend")])})
    require_rewinding(factory.make_part(config, "generator"), config)
    executor = factory.make_part(config, "executor")
    environment = {"versions": factory.verifier_toolchain(config, executor), "hardware": describe_hardware()}
    run = Run.create(folder or Path("runs") / config.id, config, [kernel.task for kernel in kernels], environment)
    paths.write_text(run.folder / KERNELS_FILE, "".join(kernel.model_dump_json() + "\n" for kernel in kernels))
    return assemble(run, executor, kernels, max_variants)


def assemble(run: Run, executor: Executor, kernels: Sequence[FastKernel], max_variants: int) -> RewindEngine:
    """Combine the parts of a rewinding."""
    config = run.config
    generator = require_rewinding(factory.make_part(config, "generator"), config)
    rewinder = KernelRewinder(generator, kernels)
    parts = {"generator": rewinder, "policy": StartFromFirst(), "executor": executor}
    memory = factory.open_bank(config, run.folder, factory.make_part(config, "embedder"), run.environment)
    engine = factory.assemble_engine(run, config, parts, memory, RewindEngine, rewinder.distill)
    engine.max_variants = max_variants
    factory.connect_generator(generator, engine)
    return engine


def require_rewinding(generator: Generator, config: RunConfig) -> RewindingGenerator:
    """Return the generator. Raises UserError if it cannot remove optimisations."""
    if not isinstance(generator, RewindingGenerator):
        name = config.plugin_name("generator")
        choices = "template_search, llm, command or file_exchange"
        raise UserError(f"generator '{name}' cannot rewind a kernel. Choose {choices} with --generator.")
    return generator


def load_kernels(folder: Path) -> list[FastKernel]:
    """Return the kernels of an interrupted rewinding."""
    try:
        return [FastKernel.model_validate_json(line) for line in (folder / KERNELS_FILE).read_text().splitlines()]
    except (OSError, ValidationError) as error:
        raise UserError(f"{folder} is not the folder of a rewinding. Choose another --out.") from error
