"""The results of solutions: what the strict protocol and KernelBench's criterion say about each, and the scores of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from evokernel.core.records import Record

THRESHOLDS = (0.0, 1.0, 1.5, 2.0)
"""The p of fast_p: the share of solutions that are correct and more than p times as fast as PyTorch eager."""
Verdict = Literal["passed", "failed", "not run"]


class StrictResult(Record):
    """What EvoKernel's strict protocol says about a solution."""

    verdict: Verdict
    gate: str = ""
    """The gate that failed."""
    reason: str = ""
    detail: str = ""
    speedup: float | None = None
    """Latency of PyTorch eager divided by the solution's; None if it was not timed."""
    latency_us: float | None = None
    note: str = ""
    """What the verdict does not cover: a smaller size, no timing, PyTorch operators allowed."""


class CriterionResult(Record):
    """What a process that runs a solution as KernelBench does says about it. The solution's code runs there: nothing is rewarded for it."""

    verdict: Verdict
    passed_loose: bool | None = None
    """Whether all trials pass with atol = rtol = 1e-2, the rule of versions 0 and 0.1; None if it was not run."""
    detail: str = ""
    largest_difference: str = ""
    speedup: float | None = None
    """Mean time of the reference divided by the solution's; None if it was not timed."""
    solution_ms: float | None = None
    note: str = ""


class SolutionResult(Record):
    """Both verdicts on one solution."""

    solution: str
    """Path relative to the folder of solutions."""
    problem: str
    kind: str
    key: str
    """Hash of solution, problem, settings and versions."""
    strict: StrictResult
    criterion: CriterionResult
    operators: tuple[str, ...] | None = None
    """PyTorch operators that the solution calls; None if no call was made."""
    seconds: float

    @property
    def passes_only_criterion(self) -> bool:
        """Whether KernelBench's criterion passes a solution that the strict protocol fails."""
        return self.criterion.verdict == "passed" and self.strict.verdict == "failed"

    @property
    def passes_only_strict(self) -> bool:
        """Whether the strict protocol passes a solution that KernelBench's criterion fails."""
        return self.strict.verdict == "passed" and self.criterion.verdict == "failed"


class Score(Record):
    """Pass rate and fast_p of one criterion over the solutions that it decided."""

    decided: int
    passed: int
    timed: int
    fast: dict[str, float | None]
    """fast_p by p; None if nothing was decided, or nothing was timed for p above 0."""


def compute_score(results: Sequence[SolutionResult], select: Callable[[SolutionResult], tuple[Verdict, float | None]]) -> Score:
    """Return the score of one criterion; `select` returns its verdict and speed-up. fast_0 is the share that passes, timed or not."""
    pairs = [select(result) for result in results]
    decided = [pair for pair in pairs if pair[0] != "not run"]
    passed = [speedup for verdict, speedup in decided if verdict == "passed"]
    timed = [speedup for speedup in passed if speedup is not None]
    fast: dict[str, float | None] = {}
    for p in THRESHOLDS:
        if not decided or (p and passed and not timed):
            fast[f"{p:g}"] = None
        else:
            fast[f"{p:g}"] = (len(passed) if not p else sum(speedup > p for speedup in timed)) / len(decided)
    return Score(decided=len(decided), passed=len(passed), timed=len(timed), fast=fast)


def strict_score(results: Sequence[SolutionResult]) -> Score:
    """The score under the strict protocol."""
    return compute_score(results, lambda result: (result.strict.verdict, result.strict.speedup))


def criterion_score(results: Sequence[SolutionResult], is_loose: bool = False) -> Score:
    """The score under KernelBench's criterion: its current rule, or that of versions 0 and 0.1 (`is_loose`)."""

    def select(result: SolutionResult) -> tuple[Verdict, float | None]:
        found = result.criterion
        if not is_loose:
            return found.verdict, found.speedup
        return ("not run" if found.verdict == "not run" else "passed" if found.passed_loose else "failed"), found.speedup

    return compute_score(results, select)
