"""Reads candidates from files, one per attempt: for tests, examples and hand-written kernels."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply
from evokernel.core.state import State


class FromFiles:
    """The n-th attempt on a task gets the n-th entry of `<folder>/<task name>/` in name order; after the last entry, the last one again.

    An entry is a file, which becomes `kernel` with the same suffix, or a folder with all files of the candidate.
    """

    def __init__(self, backend: str, folder: str = "") -> None:
        if not folder or not Path(folder).is_dir():
            raise UserError(
                f"generator 'from_files': folder '{folder}' does not exist: set generator.folder to a folder with one subfolder per task"
            )
        self.backend, self.folder = backend, Path(folder)

    def write(self, state: State, context: Context) -> Reply:
        """The candidate of the next attempt; if the task has no entries, an empty candidate whose notes say so."""
        task_folder = self.folder / state.task.id.rpartition("/")[2]
        entries = sorted(p for p in task_folder.iterdir() if not p.name.startswith(".")) if task_folder.is_dir() else []
        if not entries:
            notes = f"from_files has no candidate for this task: {task_folder} is missing or empty"
            return Reply(candidate=Candidate(backend=self.backend, files={}, notes=notes))
        entry = entries[min(len(state.attempts), len(entries) - 1)]
        try:
            files = read_entry(entry)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"generator 'from_files' cannot read {entry}: {error}; it must be a text file or a folder of text files"
            ) from error
        return Reply(candidate=Candidate(backend=self.backend, files=files, notes=entry.name))

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: files contain no lessons."""
        return None


def read_entry(entry: Path) -> dict[str, str]:
    """The files of one entry by their names in the candidate."""
    if entry.is_file():
        return {f"kernel{entry.suffix}": entry.read_text(encoding="utf-8")}
    return {str(p.relative_to(entry)): p.read_text(encoding="utf-8") for p in sorted(entry.rglob("*")) if p.is_file()}


plugin = FromFiles
