"""Hand-made tasks, attempts and run folders: what a run leaves behind, without running anything."""

from pathlib import Path

from evokernel.core.config import RunConfig
from evokernel.core.records import Attempt, Candidate, ContextRef, GateResult, Outcome, Profile, Signature, Stage, Task, Tensor, Usage, Work
from evokernel.core.run import Run

SOURCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
KERNEL = 'extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {}\n'
ESTIMATE = "estimate (schedule)"


def task(name: str, family: str = "activation", suite: str = "made") -> Task:
    shape = Tensor(name="x", dtype="float32", shape=(64, 32))
    signature = Signature(inputs=(shape,), outputs=(shape.model_copy(update={"name": "out"}),))
    sizes = {"bench": {}, "small": {"N": 8}, "held_out": {"N": 7}}
    return Task(id=f"{suite}/{name}", family=family, source=SOURCE, signature=signature, work=Work(flops=2048, bytes=16384), sizes=sizes)


def passed(latency_us: float, eager_us: float = 100.0, clock: str = "cpu") -> Outcome:
    gates = tuple(GateResult(gate=name, passed=True, seconds=0.25) for name in ("screen", "build", "check", "time"))
    profile = Profile(bottleneck="memory", summary="It moves 12 GB/s of 20 GB/s.")
    return Outcome(gates=gates, samples_us=(latency_us,) * 5, baseline_us={"eager": (eager_us,) * 5}, clock=clock, profile=profile)


def estimated(latency_us: float, xla_us: float = 100.0, bottleneck: str = "hbm") -> Outcome:
    """As a backend that computes times leaves it: one sample each, and no noise."""
    profile = Profile(bottleneck=bottleneck, summary="HBM is busy.", figures={"writing_us": 5.0, "roofline_us": 20.0})
    update = {"samples_us": (latency_us,), "baseline_us": {"xla": (xla_us,)}, "clock": ESTIMATE, "profile": profile}
    return passed(latency_us).model_copy(update=update)


def failed(gate: str, reason: str, detail: str = "") -> Outcome:
    order = ("write", "screen", "build", "check", "time")
    gates = tuple(GateResult(gate=name, passed=True) for name in order[1 : order.index(gate)])
    return Outcome(gates=(*gates, GateResult(gate=gate, passed=False, reason=reason, detail=detail or f"{reason} in detail")))


def attempt(of: Task, number: int, outcome: Outcome, **more: object) -> Attempt:
    fields: dict[str, object] = {
        "id": f"{of.id}/{number}",
        "run": "made-run",
        "task": of.id,
        "round": number,
        "stage": Stage.DRAFT,
        "candidate": Candidate(backend="cpp", files={"kernel.cpp": f"// attempt {number}\n{KERNEL}"}),
        "outcome": outcome,
        "reward": 1.0 if outcome.feasible else -1.0,
        "at": 1000.0 + 10 * number,
    }
    return Attempt.model_validate({**fields, **more})


def made() -> tuple[list[Task], list[Attempt]]:
    """Three tasks, three rounds: one solved at once and improved, one solved late, one never."""
    relu, softmax, matmul = task("relu"), task("softmax", "softmax"), task("matmul", "matmul")
    shown = (ContextRef(id="cpp/tiling", role="practice", q=0.5),)
    attempts = [
        attempt(relu, 0, passed(100.0)),
        attempt(softmax, 0, failed("build", "compile_error", "kernel.cpp:3: expected ';'\n  3 | int x")),
        attempt(matmul, 0, failed("check", "mismatch")),
        attempt(relu, 1, passed(25.0), stage=Stage.REFINE, start="made/relu/0", shown=shown),
        attempt(softmax, 1, failed("check", "mismatch"), shown=shown),
        attempt(matmul, 1, failed("check", "mismatch")),
        attempt(relu, 2, failed("check", "crash"), stage=Stage.REFINE, start="made/relu/1"),
        attempt(softmax, 2, passed(200.0)),
        attempt(matmul, 2, failed("write", "no_code")),
    ]
    return [relu, softmax, matmul], attempts


def write_run(folder: Path, tasks: list[Task], attempts: list[Attempt], **settings: object) -> Run:
    """A run folder on disk."""
    table: dict[str, object] = {
        "id": "made-run",
        "budget": 3,
        "backend": {"name": "cpp"},
        "memory": str(folder.parent / "bank.db"),
        **settings,
    }
    facts = {"versions": {"evokernel": "0.1.0"}, "hardware": {"machine": "test"}}
    run = Run.create(folder, RunConfig.model_validate(table), tasks, facts)
    for one in attempts:
        run.journal.append(one)
    return run


def with_usage(cost_usd: float | None) -> Usage:
    return Usage(model="m", calls=1, input_tokens=10, output_tokens=20, cost_usd=cost_usd, seconds=1.0)
