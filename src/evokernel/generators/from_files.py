"""Plays candidates from files, one per attempt: for tests, examples and kernels written by hand."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply, State


class Script:
    """Attempt n of a task gets the n-th entry of `<folder>/<task name>/` in name order; when they run out, the last again.

    An entry is a file (it becomes `kernel` with the same suffix) or a folder (all its files).
    """

    def __init__(self, backend: str, folder: str = "") -> None:
        if not folder or not Path(folder).is_dir():
            raise UserError(
                f"generator 'from_files': there is no folder '{folder}': set generator.folder to one with a folder per task in it"
            )
        self.backend, self.folder = backend, Path(folder)

    def write(self, state: State, context: Context) -> Reply:
        """The candidate whose turn it is; without any for this task, an empty one that says so."""
        home = self.folder / state.task.id.rpartition("/")[2]
        takes = sorted(p for p in home.iterdir() if not p.name.startswith(".")) if home.is_dir() else []
        if not takes:
            notes = f"the script has no candidate for this task: {home} is missing or empty"
            return Reply(candidate=Candidate(backend=self.backend, files={}, notes=notes))
        take = takes[min(len(state.attempts), len(takes) - 1)]
        try:
            files = read(take)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"generator 'from_files' cannot read {take}: {error}; it must be a text file or a folder of them") from error
        return Reply(candidate=Candidate(backend=self.backend, files=files, notes=take.name))

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """A script draws none."""
        return None


def read(take: Path) -> dict[str, str]:
    """The files of one entry by the names a candidate has for them."""
    if take.is_file():
        return {f"kernel{take.suffix}": take.read_text(encoding="utf-8")}
    return {str(p.relative_to(take)): p.read_text(encoding="utf-8") for p in sorted(take.rglob("*")) if p.is_file()}


plugin = Script
