"""The runs and banks that are served: found once, named by keys, never by paths that a request could choose."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from evokernel.core.bank_uri import BankLocation, ServerUrl, parse_location
from evokernel.core.errors import UserError
from evokernel.web.run_tail import Followed, Stamp, stamp
from evokernel.web.summary import Row, summarise

DEEPEST = 4
"""How far below a named folder runs are looked for: an experiment keeps them two folders down."""
KEPT_BYTES = 1 << 28
"""Journals whose attempts stay in memory, together."""
FILES = ("run.toml", "tasks.jsonl", "attempts.jsonl", "finals.jsonl", "revoked.jsonl")
NOT_RUNS = {"artifacts", "plots", "__pycache__"}
T = TypeVar("T")


class Shelf:
    """Whatever is served. Used by one thread at a time."""

    def __init__(self, folders: Sequence[Path], banks: Sequence[BankLocation]) -> None:
        self.roots = [folder.resolve() for folder in folders]
        self._named_banks = [bank if isinstance(bank, ServerUrl) else bank.resolve() for bank in banks]
        self.runs: dict[str, Followed] = {}
        self.rows: dict[str, Row] = {}
        self.seen: dict[str, tuple[Stamp | None, ...]] = {}
        self._used: list[str] = []
        self.look()

    def look(self) -> None:
        """Finds runs that are new, and forgets those that are gone."""
        places = {folder: name for root in self.roots for folder, name in run_folders(root)}
        known = {run.folder: key for key, run in self.runs.items()}
        for folder in known.keys() - places.keys():
            key = known[folder]
            self.runs.pop(key)
            self.rows.pop(key, None)
        for folder, name in places.items():
            if folder not in known:
                key = free(name, self.runs)
                self.runs[key] = Followed(key, folder)

    @property
    def banks(self) -> dict[str, BankLocation]:
        """Banks by key: those that were named, and those inside run folders."""
        found: dict[str, BankLocation] = {}
        for path in self._named_banks:
            found[free(path.name, found)] = path
        for key, run in self.runs.items():
            if (own := run.folder / "memory.db").is_file() and not own.is_symlink():
                found[free(f"{key}~memory.db", found)] = own
        return found

    def bank_of(self, run: Followed) -> str | None:
        """The key of the bank that a run learns in, where that is one of those served."""
        if not run.run:
            return None
        config = run.run.config
        path = run.folder / "memory.db" if config.fresh else parse_location(config.memory)
        sought = Path(os.path.normpath(path.absolute())) if isinstance(path, Path) else path
        return next((key for key, bank in self.banks.items() if bank == sought), None)

    def get(self, key: str) -> Followed:
        """A run by its key, up to date, or a line that says there is none."""
        run = self.runs.get(key)
        if run is None:
            raise UserError(f"no run '{key}' is served here")
        run.refresh()
        self._make_room(key)
        return run

    def row(self, key: str) -> Row:
        """What the list shows of a run, read now if need be."""
        run = self.runs[key]
        now = tuple(stamp(run.folder / name) for name in FILES)
        if key not in self.rows or self.seen.get(key) != now:
            run.refresh()
            self.rows[key], self.seen[key] = summarise(run), now
            self._make_room(key)
        return self.rows[key]

    def unread(self) -> list[str]:
        """Runs of which nothing is known yet, newest first."""
        waiting = [key for key in self.runs if key not in self.rows]
        return sorted(waiting, key=lambda key: self.runs[key].folder.name, reverse=True)

    def _make_room(self, key: str) -> None:
        """Lets go of runs that nobody looked at for longest."""
        self._used = [*(one for one in self._used if one != key and one in self.runs), key]
        total = sum(self.runs[one].size for one in self._used)
        for one in self._used[:-1]:
            if total <= KEPT_BYTES:
                break
            total -= self.runs[one].size
            self.runs[one].drop()


def free(name: str, taken: dict[str, T]) -> str:
    """A key that is not taken yet; slashes become tildes, so that it is one part of an address."""
    key = name.replace("/", "~") or "run"
    number = 2
    while key in taken:
        key, number = f"{name.replace('/', '~')}~{number}", number + 1
    return key


def run_folders(root: Path) -> Iterator[tuple[Path, str]]:
    """Run folders at or below a root, with their names as seen from it; links are not followed."""
    if (root / "run.toml").is_file():
        yield root, root.name
        return
    for folder, inner, files in os.walk(root, onerror=ignore):
        place = Path(folder)
        inner[:] = sorted(name for name in inner if name not in NOT_RUNS and not name.startswith("."))
        if "run.toml" in files:
            inner.clear()
            yield place, place.relative_to(root).as_posix()
        elif len(place.relative_to(root).parts) >= DEEPEST:
            inner.clear()


def ignore(error: OSError) -> None:
    """A folder that may not be read holds no run that could be shown."""
