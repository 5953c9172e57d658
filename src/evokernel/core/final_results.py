"""Re-evaluation results of a run's best kernels: `finals.jsonl`, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from evokernel.core.errors import UserError
from evokernel.core.journal import Journal, append_line
from evokernel.core.records import Attempt, Outcome, Record
from evokernel.core.state import best_so_far


class FinalResult(Record):
    """Result of re-evaluating a best kernel: new processes, other inputs, and timed against the baselines only."""

    task: str
    """Id of the task."""
    attempt: str
    """Id of the attempt."""
    outcome: Outcome
    finished_at: float = 0.0
    """Seconds since the epoch."""


FinalResults = Mapping[str, FinalResult]
"""Results by attempt id."""


def read_final_results(folder: Path) -> dict[str, FinalResult]:
    """Read the results in a run's folder by attempt id; skips a last line that a crash left incomplete."""
    path = folder / "finals.jsonl"
    if not path.exists():
        return {}
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        results = [FinalResult.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise UserError(
            f"{path} is damaged ({error.errors()[0]['msg']}). Remove it and resume the run, which re-evaluates the best kernels."
        ) from error
    return {final.attempt: final for final in results}


def append_final_result(folder: Path, final: FinalResult) -> None:
    """Append one result, after removing a line that a crash left incomplete."""
    path = folder / "finals.jsonl"
    Journal(path).repair()
    append_line(path, final.model_dump_json())


def failed_reevaluation(finals: FinalResults) -> set[str]:
    """Return the ids of attempts that failed their re-evaluation."""
    return {name for name, final in finals.items() if not final.outcome.feasible}


def best_surviving(attempts: Iterable[Attempt], finals: FinalResults) -> Attempt | None:
    """Return the best kernel that has not failed its re-evaluation."""
    bests = best_so_far(attempts, excluded=failed_reevaluation(finals))
    return bests[-1] if bests else None
