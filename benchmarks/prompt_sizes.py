"""Measures the length of prompts in characters, by part of the run. `python benchmarks/prompt_sizes.py [BACKEND]`.

The memory holds the seed cards and one correct kernel of each operator in MEMORY, written by `template_search` and not verified: the
latencies and speedups are made up, only the lengths are real. The start point of a refinement is the kernel that `template_search`
writes for the operator, or STAND_IN's kernel if it has no template.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt, Candidate, Context, GateResult, Opportunity, Outcome, Profile, Stage, Task
from evokernel.core.state import State
from evokernel.generators.prompting import PromptBuilder
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.suites.loader import load_tasks

TASKS = ("level1/conv2d_square", "level2/linear_dropout_softmax", "attention/causal", "level1/softmax")
MEMORY = (
    "level1/matmul_square", "level1/matmul_transposed_left", "level1/group_norm", "level1/layer_norm", "level1/gelu_erf",
    "level1/max_pool2d", "level1/cross_entropy_loss", "level2/linear_gelu_softmax", "level2/linear_add_relu",
)  # fmt: skip
STAND_IN = "level2/linear_dropout_softmax"
PROFILE = Profile(
    bottleneck="vector",
    summary="The vector pipe is busy 97 % of 183.0 us.",
    figures={"vector_percent": 97.0, "cores_percent": 100.0},
    opportunities=(
        Opportunity(cause="product_on_vector", gain_us=174.0, line=140, summary="About 9 us on the cube: Matmul.", card="matmul-object"),
        Opportunity(cause="no_overlap", gain_us=12.0, line=120, summary="Copies wait for the vector unit: two buffers per queue."),
        Opportunity(cause="small_copies", gain_us=6.0, line=131, summary="4,096 copies of 128 bytes: copy several rows at once."),
    ),
)


def load_task(id: str) -> Task:
    """The task with this id."""
    return next(task for task in load_tasks(id) if task.id == id)


def write_kernel(task: Task, backend: str, seed: int = 0) -> Candidate:
    """The kernel of `template_search` for a task; without files if it has no template."""
    generator = make_plugin("generator", "template_search", backend=backend, seed=seed)
    return generator.write(State(task=task), Context(stage=Stage.DRAFT)).candidate


def make_attempt(task: Task, candidate: Candidate, speedup: float, run: str) -> Attempt:
    """A correct attempt with a made-up latency."""
    gates = tuple(GateResult(gate=gate, passed=True) for gate in ("build", "check", "time"))
    outcome = Outcome(gates=gates, samples_us=(10 / speedup,), baseline_us={"eager": (10.0,)}, clock="estimate", profile=PROFILE)
    return Attempt(id=f"{task.id}/0", run=run, task=task.id, round=0, stage=Stage.DRAFT, candidate=candidate, outcome=outcome, reward=1.0)


def main() -> None:
    """Print the lengths of three prompts for each operator."""
    backend = sys.argv[1] if len(sys.argv) > 1 else "ascendc"
    policy, prompts = make_plugin("policy", "value", epsilon=0.0, epsilon_end=0.0), PromptBuilder(backend)
    stand_in = write_kernel(load_task(STAND_IN), backend)
    embedder = make_plugin("embedder", "hash")
    with tempfile.TemporaryDirectory() as folder, Bank.open(Path(folder) / "bank.db", embedder, backend=backend, run="now") as bank:
        tasks = {id: load_task(id) for id in TASKS}
        bank.add(load_seed_cards(backend))
        first = {id: len(prompts.build_text(State(task=task), policy.choose(State(task=task), bank))) for id, task in tasks.items()}
        for n, task in enumerate(map(load_task, MEMORY)):
            candidate = write_kernel(task, backend, seed=n)
            if candidate.files:
                bank.add(distill(task, make_attempt(task, candidate, 0.5 + 0.1 * n, "earlier")))
        print(f"{'operator':32} {'draft, cards only':>18} {'draft, memory':>14} {'refine, memory':>15} {'start point':>12}")
        for id, task in tasks.items():
            draft = prompts.build_text(State(task=task), policy.choose(State(task=task), bank))
            candidate = write_kernel(task, backend)
            start = make_attempt(task, candidate if candidate.files else stand_in, 0.1, "now")
            state = State(task=task, attempts=(start,), round=1)
            refine = prompts.build_text(state, policy.choose(state, bank))
            print(f"{id:32} {first[id]:18,} {len(draft):14,} {len(refine):15,} {len(start.candidate.code):12,}")


if __name__ == "__main__":
    main()
