"""Answers from a recorded run: the same candidates by attempt id, and no model is called."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.errors import StopRun, UserError
from evokernel.core.journal import Journal
from evokernel.core.records import Attempt, Candidate, Context, Outcome, Reply, State, Usage


class Replay:
    """`journal` is a run folder or its attempts.jsonl. Where the recording has no such attempt, the run ends.

    Candidates and lessons come back without their usage: replaying them costs nothing.
    """

    def __init__(self, backend: str, journal: str = "") -> None:
        self.attempts = {attempt.id: attempt for attempt in recorded(Path(journal))}
        others = {a.candidate.backend for a in self.attempts.values()} - {backend}
        if others:
            raise UserError(
                f"generator 'replay': {journal} was recorded with backend '{min(others)}', not '{backend}': set backend.name to it"
            )

    def write(self, state: State, context: Context) -> Reply:
        """The recorded candidate of this attempt, and what found no room in the prompt it answered."""
        attempt = self.attempts.get(state.next_id)
        if attempt is None:
            raise StopRun(f"the recording ends here: it has no attempt {state.next_id}")
        unseen = tuple(ref.id for ref in attempt.truncated_items)
        return Reply(candidate=attempt.candidate.model_copy(update={"usage": Usage()}), truncated_items=unseen)

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """The recorded lesson, if one was written."""
        attempt = self.attempts.get(state.next_id)
        if attempt is None or not attempt.lesson:
            return None
        return Reply(candidate=Candidate(backend=candidate.backend, files={}), text=attempt.lesson)


def recorded(path: Path) -> list[Attempt]:
    """All attempts of a run folder or journal file."""
    file = path / "attempts.jsonl" if path.is_dir() else path
    try:
        if not file.is_file():
            raise UserError(f"generator 'replay': no journal at {file}: set generator.journal to a run folder or its attempts.jsonl")
        return list(Journal(file).read())
    except OSError as error:
        raise UserError(f"generator 'replay' cannot read {file}: {error.strerror or error}; check its permissions") from error


plugin = Replay
