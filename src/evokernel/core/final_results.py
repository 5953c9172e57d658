"""A run's bests, judged once more from the beginning when its loop is over: `finals.jsonl`, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from evokernel.core.errors import UserError
from evokernel.core.journal import Journal, append_line
from evokernel.core.records import Attempt, Outcome, Record
from evokernel.core.statistics import best_so_far


class FinalResult(Record):
    """The second judgement of a best kernel: other processes, other inputs, nothing timed beside it but the baselines."""

    task: str
    attempt: str
    outcome: Outcome
    at: float = 0.0
    """Seconds since the epoch."""


FinalResults = Mapping[str, FinalResult]
"""By attempt."""


def read_final_results(folder: Path) -> dict[str, FinalResult]:
    """Those of a run's folder; a line cut short by a crash is left out."""
    path = folder / "finals.jsonl"
    if not path.exists():
        return {}
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        found = [FinalResult.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({error.errors()[0]['msg']}): remove it and resume, which judges the bests again") from error
    return {final.attempt: final for final in found}


def append_final_result(folder: Path, final: FinalResult) -> None:
    """Adds one, after what a crash left unfinished is cut off."""
    path = folder / "finals.jsonl"
    Journal(path).repair()
    append_line(path, final.model_dump_json())


def failed_reevaluation(finals: FinalResults) -> set[str]:
    """Attempts that did not hold up."""
    return {name for name, final in finals.items() if not final.outcome.feasible}


def best_surviving(attempts: Iterable[Attempt], finals: FinalResults) -> Attempt | None:
    """The best kernel among those that hold up, as far as is known."""
    found = best_so_far(attempts, without=failed_reevaluation(finals))
    return found[-1] if found else None
