"""Small deterministic parts for driving the loop: no torch, no compiler, no model."""

from __future__ import annotations

import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError
from evokernel.core.plugins import accepts_setting, make_plugin, plugin_names
from evokernel.core.records import (
    Attempt,
    Candidate,
    GateResult,
    Outcome,
    Reply,
    ScalarArgument,
    Signature,
    Stage,
    Task,
    Tensor,
    Usage,
    Work,
)
from evokernel.core.run import Run
from evokernel.engine.loop import Engine
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.policies.strategy import MEMORY_POLICIES


@cache
def make_seeded_bank() -> bytes:
    """Return the database of a memory bank that contains the cards of the backend `cpp`; embedding them takes time."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bank.db"
        with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="seed") as bank:
            bank.add(load_seed_cards("cpp"))
        return path.read_bytes()


def open_seeded_bank(path: Path, run: str) -> Bank:
    """Open a memory bank; a new one contains the cards of the backend `cpp`."""
    if not path.exists():
        path.write_bytes(make_seeded_bank())
    return Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run=run)


def list_policies() -> list[dict[str, str]]:
    """Return every policy by its name; a strategy once with each memory policy, as the setting `memory`."""
    policies = []
    for name in plugin_names("policy"):
        memories = MEMORY_POLICIES if accepts_setting("policy", name, "memory") else [None]
        policies += [{"policy": name} | ({"memory": memory} if memory else {}) for memory in memories]
    return policies


def make_task(name: str, family: str = "activation") -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(64, 64))
    signature = Signature(
        inputs=(tensor,), scalars=(ScalarArgument(name="n", kind="int", value=3),), outputs=(tensor.model_copy(update={"name": "out"}),)
    )
    source = f"class Model:\n    def forward(self, x):\n        return {name}(x)\n"
    return Task(
        id=f"t/{name}",
        family=family,
        source=source,
        signature=signature,
        work=Work(flops=1e4, bytes=3e4),
        sizes={"bench": {}, "small": {"N": 8}, "held_out": {"N": 7}},
    )


def make_attempt(
    n: int, name: str = "x", feasible: bool = True, stage: Stage = Stage.DRAFT, run: str = "r", latency: float = 10.0
) -> Attempt:
    gate = GateResult(
        gate="check", passed=feasible, reason="" if feasible else "mismatch", detail="" if feasible else "3 of 64 elements differ"
    )
    outcome = Outcome(gates=(GateResult(gate="build", passed=True), gate), samples_us=(latency,) * 3 if feasible else ())
    candidate = Candidate(backend="cpp", files={"kernel.cpp": f"// {name} {n}"})
    return Attempt(
        id=f"t/{name}/{n}",
        run=run,
        task=f"t/{name}",
        round=n,
        stage=stage,
        candidate=candidate,
        outcome=outcome,
        reward=1.0 if feasible else -1.0,
    )


class EchoGenerator:
    """Generator whose candidate text depends on the complete context."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def write(self, state, context):
        self.calls.append(state.next_id)
        time.sleep(random.random() / 500)  # vary the order in which attempts finish
        text = " ".join([state.next_id, str(context.start_point and context.start_point.id), *[entry.item.id for entry in context.items]])
        return Reply(
            candidate=Candidate(
                backend="cpp", files={"kernel.cpp": text}, usage=Usage(model="m", calls=1, input_tokens=1, output_tokens=1)
            ),
            prompt="p",
            text=text,
        )

    def lesson(self, state, candidate, outcome):
        return None


class ArithmeticExecutor:
    """Executor that decides by arithmetic on the candidate text, on two threads."""

    def __init__(self, fail: set[str] = frozenset()) -> None:
        self.pool, self.fail = ThreadPoolExecutor(2), set(fail)

    def submit(self, job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def verify(self, job) -> Outcome:
        text = job.candidate.files["kernel.cpp"]
        first = text.split()[0]
        if first in self.fail:
            self.fail.discard(first)
            raise InfraError("device lost")
        number = sum(text.encode()) % 97
        time.sleep(random.random() / 500)
        if number % 3 == 0:
            return Outcome(gates=(GateResult(gate="build", passed=False, reason="compile_error", detail="no"),))
        return Outcome(
            gates=(GateResult(gate="build", passed=True), GateResult(gate="check", passed=True)),
            samples_us=(float(number),) * 3,
            baseline_us={"eager": (50.0,) * 3},
        )

    def close(self) -> None:
        self.pool.shutdown()


def make_engine(
    folder: Path,
    budget: int = 6,
    tasks=None,
    policy: str = "value",
    concurrency: int = 4,
    executor=None,
    stop_when: str = "budget",
    min_novelty: float = 0.0,
    generator=None,
    bank: Path | None = None,
    **settings,
) -> Engine:
    """Return an engine for a new or existing run in `folder`; further settings are those of the policy."""
    parts = {"backend": {"name": "cpp"}, "policy": {"name": policy}}
    config = RunConfig(id="run", budget=budget, stop_when=stop_when, min_novelty=min_novelty, concurrency=concurrency, **parts)
    tasks = tasks or [make_task(name) for name in ("relu", "gelu", "tanh", "sum", "max")]
    run = Run.open(folder) if (folder / "run.toml").exists() else Run.create(folder, config, tasks, {})
    if run.config.budget != budget:
        run.save_config(run.config.model_copy(update={"budget": budget}))
    run.lock()
    policy_plugin = make_plugin("policy", policy, **settings)
    return Engine(
        run=run,
        generator=generator or EchoGenerator(),
        policy=policy_plugin,
        memory=open_seeded_bank(bank or folder / "memory.db", run="run"),
        executor=executor or ArithmeticExecutor(),
        distill=distill,
        clock=lambda: 0.0,
    )


RENAMED = """
import torch.nn as nn
import torch

HOW_MANY = 7

class Model(nn.Module):
    # Somebody else's words.

    def __init__(self, wide: int, deep: int, by: float):
        super().__init__()
        self.dense = nn.Linear(wide, deep)  # as wide as needed
        self.by = by

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.dense(given)) / self.by

def get_inputs():
    return [torch.rand(HOW_MANY, 5)]
"""
"""The same computation as `level2/linear_relu_divide`, under other names."""
