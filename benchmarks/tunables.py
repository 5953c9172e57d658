"""Measures what tuning within attempts gains: `template_search` with and without it, with the same number of attempts.

    python benchmarks/tunables.py [--backends pallas,ascendc,cpp] [--attempts 5] [--trials 24] [--seeds 1] [--tasks SPEC] [--out FOLDER]

Operators: the starter suite and ten of level 2. Both arms start from seed knowledge with the same seeds. The verifier re-evaluates the best
kernels of both arms without tuning, and the ratio of these latencies counts: measured on `cpp`, estimated on `pallas` and `ascendc`. Every
arm and seed has a run folder; the same command resumes, also with more attempts or seeds. Writes tunables.md and tunables.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from study import run_main, write_tables

from evokernel.cli.experiment import ProgressPrinter
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt
from evokernel.experiments.arm_runs import complete_run, make_arm_run
from evokernel.experiments.intervals import Interval, bootstrap_interval
from evokernel.experiments.metrics import format_ratio
from evokernel.experiments.spec import ArmSpec, ExperimentSpec
from evokernel.reports import formatting
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Column, Table
from evokernel.suites.loader import load_tasks

LEVEL2 = (
    "linear_add_relu", "linear_avgpool_gelu_scale_max", "linear_batchnorm_scale_softmax", "linear_divide_gelu", "linear_dropout_softmax",
    "linear_gelu_softmax", "linear_groupnorm_hardtanh", "linear_max_subtract_gelu", "linear_multiply_leakyrelu", "linear_relu_divide",
)  # fmt: skip
PLAIN, TUNED = "plain", "tuned"
FINAL_TIMING_S = 1.0
"""Seconds for timing the best kernels in the re-evaluation."""


class BackendResult(NamedTuple):
    """Both arms on one backend: results by seed, in the order of the operators."""

    backend: str
    plain: dict[int, list[TaskResult]]
    tuned: dict[int, list[TaskResult]]

    def log_ratios(self) -> np.ndarray:
        """Return the logarithm of the plain latency divided by the tuned one, operators × seeds; NaN if an arm found no kernel."""
        rows = [[log_ratio(one, other) for one, other in zip(self.plain[seed], self.tuned[seed])] for seed in sorted(self.plain)]
        return np.array(rows, dtype=np.float64).T

    def ratio(self) -> Interval | None:
        """Return the interval of the mean logarithm."""
        return bootstrap_interval(self.log_ratios())


def best_latency_us(result: TaskResult) -> float | None:
    """Return the latency of the best kernel, from its re-evaluation."""
    return result.best_outcome.latency_us if result.best_outcome else None


def explain_missing_latency(result: TaskResult) -> str:
    """Say why an arm has no latency for an operator; empty if it has one."""
    if best_latency_us(result):
        return ""
    if result.best:
        return "correct, but not timed"
    if not result.attempts:
        return "not attempted"
    failures = [(a, result.reevaluations[a.id].outcome) for a in result.failed_reevaluations] or [(a, a.outcome) for a in result.attempts]
    attempt, outcome = failures[-1]
    if attempt.candidate.is_unsupported:
        return "no template"
    place = "re-evaluation" if result.failed_reevaluations else f"all {len(result.attempts)} attempts"
    failure = outcome.failure
    return f"{place} failed, last at {failure.gate}: {failure.reason or 'no reason given'}" if failure else f"{place} failed"


def log_ratio(plain: TaskResult, tuned: TaskResult) -> float:
    """Return the logarithm of the ratio of the best latencies; NaN if one is missing."""
    before_us, after_us = best_latency_us(plain), best_latency_us(tuned)
    return log(before_us / after_us) if before_us and after_us else float("nan")


def verification_s(attempt: Attempt) -> float:
    """Return the seconds that a verifier spent on an attempt."""
    return sum(gate.seconds for gate in attempt.outcome.gates) + (attempt.outcome.tuning.seconds if attempt.outcome.tuning else 0.0)


def list_attempts(results: dict[int, list[TaskResult]]) -> list[Attempt]:
    """Return the attempts of an arm."""
    return [attempt for seed in sorted(results) for result in results[seed] for attempt in result.attempts]


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None without values."""
    return sum(values) / len(values) if values else None


def run_backend(args: argparse.Namespace, backend: str, tasks: Sequence[str]) -> BackendResult:
    """Complete the runs of both arms on one backend."""
    arms = (ArmSpec(name=PLAIN), ArmSpec(name=TUNED, settings={"tuning_trials": args.trials, "tuning_s": args.tuning_s}))
    spec = ExperimentSpec(
        name=f"tunables-{backend}",
        title="Tuning within attempts",
        description="The same number of attempts with and without tuning",
        groups={"test": ",".join(tasks)},
        arms=arms,
        seeds=args.seeds,
        settings={
            "backend": backend,
            "generator": {"name": "template_search", "prior": "expert"},  # as users run it
            "size": args.size,
            "budget": args.attempts,
            "workers": args.workers,
            "timing_s": args.timing_s,
        },
        final_eval={"timing_s": FINAL_TIMING_S},
    )
    progress = ProgressPrinter()
    results: dict[str, dict[int, list[TaskResult]]] = {PLAIN: {}, TUNED: {}}
    for seed in range(args.seeds):
        for arm in arms:
            results[arm.name][seed] = complete_run(make_arm_run(spec, arm, tasks, args.out / backend, seed), progress)
    return BackendResult(backend, results[PLAIN], results[TUNED])


def summary_row(result: BackendResult) -> dict[str, Any]:
    """Return the figures of one backend."""
    ratios = result.log_ratios()
    attempts = {arm: list_attempts(by_seed) for arm, by_seed in ((PLAIN, result.plain), (TUNED, result.tuned))}
    tunings = [attempt.outcome.tuning for attempt in attempts[TUNED] if attempt.outcome.tuning]
    interval = result.ratio()
    return {
        "backend": result.backend,
        "operators": ratios.size,
        "compared": int(np.isfinite(ratios).sum()),
        "not_compared": list_missing(result),
        "solved_plain": sum(best_latency_us(r) is not None for by_seed in result.plain.values() for r in by_seed),
        "solved_tuned": sum(best_latency_us(r) is not None for by_seed in result.tuned.values() for r in by_seed),
        "ratio": interval.exp()._asdict() if interval else None,
        "faster": int((ratios > 0.01).sum()),
        "slower": int((ratios < -0.01).sum()),
        "tuned_attempts": len(tunings),
        "trials_per_tuned_attempt": mean([sum(trial.stage == "search" for trial in tuning.trials) for tuning in tunings]),
        "gain_within_attempt": mean([log(tuning.gain) for tuning in tunings]),
        "seconds_per_attempt_plain": mean([verification_s(attempt) for attempt in attempts[PLAIN]]),
        "seconds_per_attempt_tuned": mean([verification_s(attempt) for attempt in attempts[TUNED]]),
    }


def list_missing(result: BackendResult) -> dict[str, str]:
    """Return why operators of the first seed give no comparison, by operator: the arms without a latency, each with its reason."""
    reasons = {}
    for plain, tuned in zip(result.plain[0], result.tuned[0]):
        notes = [(arm, explain_missing_latency(one)) for arm, one in ((PLAIN, plain), (TUNED, tuned))]
        if text := "; ".join(f"{arm}: {note}" for arm, note in notes if note):
            reasons[plain.task.id] = text
    return reasons


def summary_table(results: Sequence[BackendResult], rows: Sequence[dict[str, Any]]) -> Table:
    """Return the comparison, one row per backend."""
    columns = (
        Column("backend"),
        Column("compared"),
        Column("speed of tuned relative to plain"),
        Column("faster / slower"),
        Column("gain of a tuned attempt", "ratio"),
        Column("trials"),
        Column("s per attempt, plain"),
        Column("s per attempt, tuned"),
    )
    cells = []
    for result, row in zip(results, rows):
        interval = result.ratio()
        gain = row["gain_within_attempt"]
        cells.append(
            (
                row["backend"],
                f"{row['compared']} of {row['operators']}",
                format_ratio(interval) if interval else "not reported",
                f"{row['faster']} / {row['slower']}",
                None if gain is None else float(np.exp(gain)),
                *(
                    "not reported" if row[key] is None else f"{row[key]:.1f}"
                    for key in ("trials_per_tuned_attempt", "seconds_per_attempt_plain", "seconds_per_attempt_tuned")
                ),
            )
        )
    note = (
        "Geometric mean over operators of the best latency without tuning divided by the best with it, 95 % bootstrap interval; "
        "only operators for which both arms have a latency. Faster, slower: by more than 1 %. "
        "Gain: of the delivered kernel over its own default."
    )
    return Table("Tuning within attempts", columns, tuple(cells), note)


def operator_table(result: BackendResult) -> Table:
    """Return the best latencies of every operator, for the first seed, and why a latency is missing."""
    rows, missing = [], list_missing(result)
    for plain, tuned in zip(result.plain[0], result.tuned[0]):
        before_us, after_us = best_latency_us(plain), best_latency_us(tuned)
        ratio = formatting.format_ratio(before_us / after_us) if before_us and after_us else "not compared"
        latencies = (formatting.format_latency(us) if us else "not reported" for us in (before_us, after_us))
        rows.append((plain.task.id, *latencies, ratio, missing.get(plain.task.id, "")))
    columns = tuple(map(Column, ("operator", PLAIN, TUNED, "ratio", "why it is not compared")))
    return Table(f"Best latency on {result.backend}, seed 0", columns, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backends", default="pallas,ascendc,cpp")
    parser.add_argument("--attempts", type=int, default=5, help="attempts per operator [5]")
    parser.add_argument("--trials", type=int, default=24, help="settings tried per correct attempt [24]")
    parser.add_argument("--tuning-s", type=float, default=60, help="seconds after which no further setting is tried [60]")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tasks", default="", help="other operators, as in `evokernel run --tasks`")
    parser.add_argument("--size", default="laptop", choices=("laptop", "full"))
    parser.add_argument("--workers", type=int, default=0, help="verifications in parallel [one per core]")
    parser.add_argument("--timing-s", type=float, default=0.2, help="seconds for timing a kernel during a run [0.2]")
    parser.add_argument("--out", type=Path, default=Path("runs/tunables"), help="folder of the runs; existing runs are resumed")
    args = parser.parse_args()
    operators = [task.id for task in load_tasks(args.tasks or "starter," + ",".join(f"level2/{name}" for name in LEVEL2))]
    results, rows = [], []
    for backend in args.backends.split(","):
        if reason := make_plugin("backend", backend).unavailable_reason():
            print(f"{backend} is skipped: {reason}")
            continue
        results.append(run_backend(args, backend, operators))
        rows.append(summary_row(results[-1]))
    tables = [summary_table(results, rows), *map(operator_table, results)]
    write_tables(args.out, "tunables", tables, {"backends": rows})


if __name__ == "__main__":
    raise SystemExit(run_main(main))
