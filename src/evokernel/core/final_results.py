"""A run's bests, judged once more from the beginning when its loop is over: `finals.jsonl`, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from evokernel.core.errors import UserError
from evokernel.core.journal import Journal, append_line
from evokernel.core.records import Attempt, Outcome, Record
from evokernel.core.statistics import bests


class Final(Record):
    """The second judgement of a best kernel: other processes, other inputs, nothing timed beside it but the baselines."""

    task: str
    attempt: str
    outcome: Outcome
    at: float = 0.0
    """Seconds since the epoch."""


Finals = Mapping[str, Final]
"""By attempt."""


def read(folder: Path) -> dict[str, Final]:
    """Those of a run's folder; a line cut short by a crash is left out."""
    path = folder / "finals.jsonl"
    if not path.exists():
        return {}
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        found = [Final.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({error.errors()[0]['msg']}): remove it and resume, which judges the bests again") from error
    return {final.attempt: final for final in found}


def append(folder: Path, final: Final) -> None:
    """Adds one, after what a crash left unfinished is cut off."""
    path = folder / "finals.jsonl"
    Journal(path).repair()
    append_line(path, final.model_dump_json())


def fallen(finals: Finals) -> set[str]:
    """Attempts that did not hold up."""
    return {name for name, final in finals.items() if not final.outcome.feasible}


def best(attempts: Iterable[Attempt], finals: Finals) -> Attempt | None:
    """The best kernel among those that hold up, as far as is known."""
    found = bests(attempts, without=fallen(finals))
    return found[-1] if found else None
