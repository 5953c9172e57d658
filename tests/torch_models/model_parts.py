"""A small model, a kernel for its GELU, and a run with it."""

from pathlib import Path

from evokernel.core.config import resolve_config
from evokernel.core.environment import describe_hardware
from evokernel.core.records import Attempt, Candidate, GateResult, Outcome, Stage
from evokernel.core.run import Run
from evokernel.suites.loader import load_tasks

MODEL = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.act = nn.GELU()

    def forward(self, x):
        return torch.softmax(self.down(self.act(self.up(x))).view(-1, 24), dim=-1)


def get_inputs():
    return [torch.randn(64, 24)]


def get_init_inputs():
    return [24, 96]
"""
GELU = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
}
"""


def make_run(folder: Path, tasks: str, code: str, clock: str = "cpu", latency_us: float = 5.0) -> Run:
    """Write a C++ run in which one kernel passed all gates for every task."""
    task_list = load_tasks(tasks)
    run = Run.create(folder, resolve_config(None, ["backend=cpp", "id=r"]), task_list, {"hardware": describe_hardware()})
    outcome = Outcome(
        gates=(GateResult(gate="check", passed=True),), samples_us=(latency_us,) * 3, baseline_us={"eager": (10.0,) * 3}, clock=clock
    )
    for task in task_list:
        candidate = Candidate(backend="cpp", files={"kernel.cpp": code})
        run.journal.append(
            Attempt(id=f"{task.id}/0", run="r", task=task.id, round=0, stage=Stage.DRAFT, candidate=candidate, outcome=outcome, reward=1.0)
        )
    return run
