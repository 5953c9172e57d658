"""Evaluates one solution twice: by the strict protocol in the verifier's own processes, and by KernelBench's criterion in a sandbox."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from evokernel.app.kernelbench import live_check
from evokernel.app.kernelbench.results import CriterionResult, SolutionResult, StrictResult, Verdict
from evokernel.app.kernelbench.solution_client import SolutionReply, SolutionSandbox, run_solution, solution_folder
from evokernel.app.kernelbench.solution_files import Solution
from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Executor
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.engine.jobs import make_job

BACKENDS = {"cuda": "cuda", "triton": "triton"}
NO_GPU = "there is no NVIDIA GPU; run this command on a machine with one"
NEEDS_DEVICE = ("CUDA", "NVIDIA", "cuda", "GPU")
REFUSED_OPERATORS = ("forbidden", "no_code")


@dataclass(frozen=True)
class Settings:
    """How solutions are evaluated."""

    config: RunConfig
    sandbox: SolutionSandbox
    allow_torch: bool = False
    trials: int = 5
    timed_calls: int = 100
    timeout_s: float = 300.0
    threads: int = 1

    @property
    def has_device(self) -> bool:
        """Whether there is a GPU that solutions can use."""
        return self.sandbox.device != "cpu" and not self.sandbox.problem

    def describe(self) -> dict[str, Any]:
        """Everything that decides a result, for its key."""
        return {
            "backend": self.config.plugin_settings("backend"),
            "timeout_s": [self.config.timeout_s, self.timeout_s],
            "timing_s": self.config.timing_s,
            "seed": self.config.seed,
            "baselines": list(self.config.baselines),
            "allow_torch": self.allow_torch,
            "trials": self.trials,
            "timed_calls": self.timed_calls,
            "device": self.sandbox.device,
            "missing_layers": list(self.sandbox.missing_layers),
        }


def describe_limits(settings: Settings) -> list[str]:
    """What this machine cannot decide, one line each, with what to do."""
    if settings.sandbox.problem:
        return [f"KernelBench's criterion does not run on the GPU: {settings.sandbox.problem}"]
    if missing := " and ".join(settings.sandbox.missing_layers):
        return [f"KernelBench's criterion runs in a sandbox without {missing}, because the GPU needs it"]
    if settings.has_device:
        return []
    return [
        "there is no NVIDIA GPU: CUDA solutions are compiled and recorded but not run, Triton solutions run in Triton's interpreter at "
        "small sizes, and nothing is timed; run the command again on a machine with a GPU for all verdicts and speeds"
    ]


@dataclass
class Progress:
    """What a solution is going through; another thread reads it."""

    name: str
    step: str = "waiting"
    started_at: float = field(default_factory=time.monotonic)

    def enter(self, step: str) -> None:
        """Note the next step."""
        self.step, self.started_at = step, time.monotonic()


def evaluate_solution(
    solution: Solution, task: Task, key: str, settings: Settings, executor: Executor, progress: Progress
) -> SolutionResult:
    """Evaluate one solution by both criteria."""
    started_at = time.monotonic()
    progress.enter("KernelBench's criterion")
    criterion, operators = apply_criterion(solution, task, settings)
    progress.enter("strict protocol")
    strict = verify_strictly(solution, task, settings, executor)
    if settings.allow_torch and is_refused_for_torch(strict):
        progress.enter("values with PyTorch operators")
        strict, live_operators = live_check.check_values(solution, task, settings.sandbox, settings.timeout_s, settings.threads)
        operators = operators or live_operators
    return SolutionResult(
        solution=solution.name,
        problem=task.id,
        kind=solution.kind,
        key=key,
        strict=strict,
        criterion=criterion,
        operators=operators,
        seconds=round(time.monotonic() - started_at, 2),
    )


def is_refused_for_torch(strict: StrictResult) -> bool:
    """Whether a solution was refused because PyTorch computes in it, or because it has no kernel at all."""
    return strict.verdict == "failed" and strict.reason in REFUSED_OPERATORS


def verify_strictly(solution: Solution, task: Task, settings: Settings, executor: Executor) -> StrictResult:
    """Verify a solution through all gates. A solution without kernels of its own is refused without running it."""
    if solution.kind not in BACKENDS:
        return StrictResult(verdict="failed", gate="screen", reason="no_code", detail="the solution computes with PyTorch only")
    name = BACKENDS[solution.kind]
    config = settings.config.model_copy(update={"backend": {**settings.config.plugin_settings("backend"), "name": name}})
    backend = make_plugin("backend", name, **config.plugin_settings("backend"))
    if reason := backend.unavailable_reason():
        return StrictResult(verdict="not run", detail=reason)
    candidate = Candidate(backend=name, files={"kernel.py": solution.text} | (triton_reference(task) if name == "triton" else {}))
    job = make_job(config, task, candidate, seed=config.seed)
    try:
        outcome = executor.submit(job).result()
    except UserError as error:
        return StrictResult(verdict="not run", detail=str(error))
    return describe_outcome(outcome, is_interpreted=name == "triton" and backend.capabilities.timing != "device")


def triton_reference(task: Task) -> dict[str, str]:
    """The file that tells the backend `triton` how a solution's arguments are nested."""
    return {"reference.json": json.dumps({"source": task.source, "name": f"{task.id}.py", "small": task.sizes["small"]})}


def describe_outcome(outcome: Outcome, is_interpreted: bool) -> StrictResult:
    """The strict result of an outcome: without a GPU, CUDA kernels are compiled only, and Triton kernels are interpreted."""
    if failure := outcome.failure:
        verdict: Verdict = "not run" if failure.reason == "not_run" else "failed"
        return StrictResult(verdict=verdict, gate=failure.gate, reason=failure.reason, detail=failure.detail)
    note = "values checked by Triton's interpreter at small sizes, not timed" if is_interpreted else ""
    return StrictResult(verdict="passed", speedup=outcome.speedup, latency_us=outcome.latency_us, note=note)


def apply_criterion(solution: Solution, task: Task, settings: Settings) -> tuple[CriterionResult, tuple[str, ...] | None]:
    """Run a solution as KernelBench does; also return the PyTorch operators that it calls."""
    if not settings.has_device and solution.kind == "cuda":
        return CriterionResult(verdict="not run", detail=settings.sandbox.problem or NO_GPU), None
    size = "bench" if settings.has_device else "small"
    order = {
        "mode": "criterion",
        "source": task.source,
        "name": f"{task.id}.py",
        "sizes": task.sizes[size],
        "kind": solution.kind,
        "trials": settings.trials,
        "timed_calls": settings.timed_calls,
        "threads": settings.threads,
    }
    sandbox = settings.sandbox if settings.has_device else SolutionSandbox("cpu")
    with solution_folder() as workdir:
        reply = run_solution(order, solution.text, workdir, sandbox, settings.timeout_s)
    note = "" if settings.has_device else "on the processor at a small size, not timed"
    return read_criterion(reply, settings.trials, note, settings.has_device)


def read_criterion(reply: SolutionReply, trials: int, note: str, has_device: bool) -> tuple[CriterionResult, tuple[str, ...] | None]:
    """Interpret what a solution's process claims; a claim with values of other types counts as none."""
    claim = reply.claim
    operators = claim.get("operators")
    named = tuple(str(name)[:60] for name in operators[:100]) if isinstance(operators, list) else None
    error = str(claim.get("error", ""))[:600] or reply.failure
    passed, passed_loose = (claim.get(name) for name in ("passed", "passed_loose"))
    if not isinstance(passed, int) or not isinstance(passed_loose, int):
        is_undecided = not has_device and any(word in error for word in NEEDS_DEVICE)
        verdict: Verdict = "not run" if is_undecided else "failed"
        return CriterionResult(verdict=verdict, detail=error or "the process ended without a result", note=note), named
    solution_ms, reference_ms = (mean_of(claim.get(name)) for name in ("solution_ms", "reference_ms"))
    detail = error or ("" if passed == trials else f"{passed} of {trials} trials match")
    return (
        CriterionResult(
            verdict="passed" if passed == trials else "failed",
            passed_loose=passed_loose == trials,
            detail=detail,
            largest_difference=str(claim.get("largest_difference", ""))[:30],
            speedup=reference_ms / solution_ms if reference_ms and solution_ms else None,
            solution_ms=solution_ms,
            note=note,
        ),
        named,
    )


def mean_of(values: object) -> float | None:
    """Mean of a list of positive numbers from an untrusted process; None for anything else."""
    if isinstance(values, list) and values and all(isinstance(value, float) and 0 < value < 1e9 for value in values):
        return fmean(values)
    return None
