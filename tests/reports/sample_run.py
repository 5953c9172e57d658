"""Sample tasks, attempts and run folders, written without running anything."""

from pathlib import Path

from evokernel.core.config import RunConfig
from evokernel.core.records import Attempt, Candidate, ContextRef, GateResult, Outcome, Profile, Signature, Stage, Task, Tensor, Usage, Work
from evokernel.core.run import Run

SOURCE = """import torch

N = 64


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(N, 32)]
"""
KERNEL = 'extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {}\n'
ESTIMATE = "estimate (schedule)"


def make_task(name: str, family: str = "activation", suite: str = "made") -> Task:
    shape = Tensor(name="x", dtype="float32", shape=(64, 32))
    signature = Signature(inputs=(shape,), outputs=(shape.model_copy(update={"name": "out"}),))
    sizes = {"bench": {}, "small": {"N": 8}, "held_out": {"N": 7}}
    return Task(id=f"{suite}/{name}", family=family, source=SOURCE, signature=signature, work=Work(flops=2048, bytes=16384), sizes=sizes)


def passed_outcome(latency_us: float, eager_us: float = 100.0, clock: str = "cpu") -> Outcome:
    gates = tuple(GateResult(gate=name, passed=True, seconds=0.25) for name in ("screen", "build", "check", "time"))
    profile = Profile(bottleneck="memory", summary="It moves 12 GB/s of 20 GB/s.")
    return Outcome(gates=gates, samples_us=(latency_us,) * 5, baseline_us={"eager": (eager_us,) * 5}, clock=clock, profile=profile)


def estimated_outcome(latency_us: float, xla_us: float = 100.0, bottleneck: str = "hbm") -> Outcome:
    """The outcome of a backend that estimates latencies: one sample each, and no noise."""
    profile = Profile(bottleneck=bottleneck, summary="HBM is busy.", figures={"writing_us": 5.0, "roofline_us": 20.0})
    update = {"samples_us": (latency_us,), "baseline_us": {"xla": (xla_us,)}, "clock": ESTIMATE, "profile": profile}
    return passed_outcome(latency_us).model_copy(update=update)


def failed_outcome(gate: str, reason: str, detail: str = "") -> Outcome:
    order = ("write", "screen", "build", "check", "time")
    gates = tuple(GateResult(gate=name, passed=True) for name in order[1 : order.index(gate)])
    return Outcome(gates=(*gates, GateResult(gate=gate, passed=False, reason=reason, detail=detail or f"{reason} in detail")))


def make_attempt(of: Task, number: int, outcome: Outcome, **more: object) -> Attempt:
    fields: dict[str, object] = {
        "id": f"{of.id}/{number}",
        "run": "made-run",
        "task": of.id,
        "round": number,
        "stage": Stage.DRAFT,
        "candidate": Candidate(backend="cpp", files={"kernel.cpp": f"// attempt {number}\n{KERNEL}"}),
        "outcome": outcome,
        "reward": 1.0 if outcome.feasible else -1.0,
        "finished_at": 1000.0 + 10 * number,
    }
    return Attempt.model_validate({**fields, **more})


def make_sample() -> tuple[list[Task], list[Attempt]]:
    """Three tasks and three rounds: one solved at once and improved, one solved late, one never."""
    relu, softmax, matmul = make_task("relu"), make_task("softmax", "softmax"), make_task("matmul", "matmul")
    shown_items = (ContextRef(id="cpp/tiling", role="practice", q=0.5),)
    attempts = [
        make_attempt(relu, 0, passed_outcome(100.0)),
        make_attempt(softmax, 0, failed_outcome("build", "compile_error", "kernel.cpp:3: expected ';'\n  3 | int x")),
        make_attempt(matmul, 0, failed_outcome("check", "mismatch")),
        make_attempt(relu, 1, passed_outcome(25.0), stage=Stage.REFINE, start_point="made/relu/0", shown_items=shown_items),
        make_attempt(softmax, 1, failed_outcome("check", "mismatch"), shown_items=shown_items),
        make_attempt(matmul, 1, failed_outcome("check", "mismatch")),
        make_attempt(relu, 2, failed_outcome("check", "crash"), stage=Stage.REFINE, start_point="made/relu/1"),
        make_attempt(softmax, 2, passed_outcome(200.0)),
        make_attempt(matmul, 2, failed_outcome("write", "no_code")),
    ]
    return [relu, softmax, matmul], attempts


def write_run(folder: Path, tasks: list[Task], attempts: list[Attempt], **settings: object) -> Run:
    """Write a run folder to disk."""
    table: dict[str, object] = {
        "id": "made-run",
        "budget": 3,
        "backend": {"name": "cpp"},
        "memory": str(folder.parent / "bank.db"),
        **settings,
    }
    environment = {"versions": {"evokernel": "0.1.0"}, "hardware": {"machine": "test"}}
    run = Run.create(folder, RunConfig.model_validate(table), tasks, environment)
    for one in attempts:
        run.journal.append(one)
    return run


def make_usage(cost_usd: float | None) -> Usage:
    return Usage(model="m", calls=1, input_tokens=10, output_tokens=20, cost_usd=cost_usd, seconds=1.0)
