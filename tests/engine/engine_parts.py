"""Small deterministic parts to drive the loop with: no torch, no compiler, no model."""

from __future__ import annotations

import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError
from evokernel.core.plugins import make_plugin
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
from evokernel.memory.seed_cards import seeds


def task(name: str, family: str = "activation") -> Task:
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


def attempt(n: int, name: str = "x", feasible: bool = True, stage: Stage = Stage.DRAFT, run: str = "r", latency: float = 10.0) -> Attempt:
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


class Writer:
    """Writes a text that depends on everything it is shown."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def write(self, state, context):
        self.calls.append(state.next_id)
        time.sleep(random.random() / 500)  # finish in another order every time
        text = " ".join([state.next_id, str(context.start and context.start.id), *[shown.item.id for shown in context.items]])
        return Reply(
            candidate=Candidate(
                backend="cpp", files={"kernel.cpp": text}, usage=Usage(model="m", calls=1, input_tokens=1, output_tokens=1)
            ),
            prompt="p",
            text=text,
        )

    def lesson(self, state, candidate, outcome):
        return None


class Oracle:
    """Judges by arithmetic on the text, on two threads."""

    def __init__(self, fail: set[str] = frozenset()) -> None:
        self.pool, self.fail = ThreadPoolExecutor(2), set(fail)

    def submit(self, job) -> Future[Outcome]:
        return self.pool.submit(self.judge, job)

    def judge(self, job) -> Outcome:
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


def engine(
    folder: Path,
    budget: int = 6,
    tasks=None,
    policy: str = "value",
    concurrency: int = 4,
    executor=None,
    memory: Path | None = None,
    until: str = "budget",
    novelty: float = 0.0,
    generator=None,
    **settings,
) -> Engine:
    """An engine over `folder`, new or reopened."""
    parts = {"backend": {"name": "cpp"}, "policy": {"name": policy}}
    config = RunConfig(id="run", budget=budget, stop_when=until, min_novelty=novelty, concurrency=concurrency, **parts)
    tasks = tasks or [task(name) for name in ("relu", "gelu", "tanh", "sum", "max")]
    run = Run.open(folder) if (folder / "run.toml").exists() else Run.create(folder, config, tasks, {})
    if run.config.budget != budget:
        run.save_config(run.config.model_copy(update={"budget": budget}))
    run.lock()
    bank = Bank.open(memory or folder / "memory.db", make_plugin("embedder", "hash"), backend="cpp", run="run")
    bank.add(seeds("cpp"))
    made = make_plugin("policy", policy, **settings)
    writer = generator or Writer()
    return Engine(run=run, generator=writer, policy=made, memory=bank, executor=executor or Oracle(), distill=distill, clock=lambda: 0.0)
