"""Replays a recorded run: returns the recorded candidates by attempt id and calls no model."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.errors import StopRun, UserError
from evokernel.core.journal import Journal
from evokernel.core.labels import format_attempt
from evokernel.core.records import Attempt, Candidate, Context, Outcome, Reply, Usage
from evokernel.core.state import State


class Replay:
    """`journal` is a run folder or its attempts.jsonl. The run ends at the first attempt that the recording does not contain.

    Candidates, steps and lessons have no usage: replaying them costs nothing. Repairs are not repeated, and of several drafts the recorded
    choice is repeated.
    """

    steps = ("plan", "critic")

    def __init__(self, backend: str, journal: str = "") -> None:
        self.attempts = {attempt.id: attempt for attempt in read_attempts(Path(journal))}
        other_backends = {a.candidate.backend for a in self.attempts.values()} - {backend}
        if other_backends:
            raise UserError(
                f"generator 'replay': {journal} was recorded with backend '{min(other_backends)}', not '{backend}':"
                f" set backend.name to '{min(other_backends)}'"
            )

    def write(self, state: State, context: Context) -> Reply:
        """The recorded candidate of the attempt, and the items that did not fit into its prompt."""
        attempt = self.attempts.get(state.next_id)
        if attempt is None:
            raise StopRun(f"the recording ends here: it has no {format_attempt(state.next_id)}")
        omitted_ids = tuple(ref.id for ref in attempt.truncated_items)
        candidate = attempt.candidate.model_copy(update={"usage": Usage()})
        opened_items = attempt.shown_items if attempt.tool_use else None
        return Reply(
            candidate=candidate,
            truncated_items=omitted_ids,
            opened_items=opened_items,
            tool_use=attempt.tool_use,
            drafts=attempt.drafts,
            prompt_variants=attempt.prompt_variants,
        )

    def take_step(self, name: str, state: State, context: Context) -> Reply | None:
        """The recorded step, without usage; None if the attempt has none."""
        attempt = self.attempts.get(state.next_id)
        step = next((step for step in attempt.steps if step.name == name), None) if attempt else None
        if attempt is None or step is None:
            return None
        empty = Candidate(backend=attempt.candidate.backend, files={})
        return Reply(candidate=empty, text=step.text, step=step.model_copy(update={"usage": Usage()}))

    def repair(self, state: State, context: Context, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: the recorded candidate is the repaired one."""
        return None

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """The recorded lesson, or None."""
        attempt = self.attempts.get(state.next_id)
        if attempt is None or not attempt.lesson:
            return None
        return Reply(candidate=Candidate(backend=candidate.backend, files={}), text=attempt.lesson)


def read_attempts(path: Path) -> list[Attempt]:
    """All attempts of a run folder or a journal file."""
    file = path / "attempts.jsonl" if path.is_dir() else path
    try:
        if not file.is_file():
            raise UserError(f"generator 'replay': no journal at {file}: set generator.journal to a run folder or its attempts.jsonl")
        return list(Journal(file).read())
    except OSError as error:
        raise UserError(f"generator 'replay' cannot read {file}: {error.strerror or error}; check its permissions") from error


plugin = Replay
