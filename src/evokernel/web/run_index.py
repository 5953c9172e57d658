"""The runs and banks that the dashboard serves. A request names them by key, never by path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.errors import UserError
from evokernel.core.sessions import has_writer
from evokernel.web.run_tail import RunTail, Stamp, file_stamp
from evokernel.web.summary import RunRow, summarize_run

MAX_DEPTH = 4
"""Depth below a served folder at which runs are found; an experiment stores them two folders down."""
MAX_CACHED_BYTES = 1 << 28
"""Total size of the journals whose attempts stay in memory."""
WATCHED_FILES = ("run.toml", "tasks.jsonl", "attempts.jsonl", "finals.jsonl", "revoked.jsonl", "sessions.jsonl")
SKIPPED_FOLDERS = {"artifacts", "plots", "__pycache__"}
T = TypeVar("T")


class RunIndex:
    """All runs and banks that the dashboard serves. Only one thread at a time uses it."""

    def __init__(self, folders: Sequence[Path], banks: Sequence[BankLocation]) -> None:
        self.root_folders = [folder.resolve() for folder in folders]
        self._named_banks = [bank if isinstance(bank, ServerUrl) else bank.resolve() for bank in banks]
        self.runs: dict[str, RunTail] = {}
        self.rows: dict[str, RunRow] = {}
        self.row_stamps: dict[str, tuple[bool | Stamp | None, ...]] = {}
        self._recently_used: list[str] = []
        self.rescan()

    def rescan(self) -> None:
        """Add new run folders and remove deleted ones."""
        names = {folder: name for root in self.root_folders for folder, name in find_run_folders(root)}
        keys = {run.folder: key for key, run in self.runs.items()}
        for folder in keys.keys() - names.keys():
            key = keys[folder]
            self.runs.pop(key)
            self.rows.pop(key, None)
        for folder, name in names.items():
            if folder not in keys:
                key = unique_key(name, self.runs)
                self.runs[key] = RunTail(key, folder)

    @property
    def banks(self) -> dict[str, BankLocation]:
        """Banks by key: those named on the command line, then those inside run folders."""
        banks: dict[str, BankLocation] = {}
        for path in self._named_banks:
            banks[unique_key(path.name, banks)] = path
        for key, run in self.runs.items():
            if (run_bank := run.folder / "memory.db").is_file() and not run_bank.is_symlink():
                banks[unique_key(f"{key}~memory.db", banks)] = run_bank
        return banks

    def bank_key(self, run: RunTail) -> str | None:
        """The key of the bank that a run learns into, if the dashboard serves it."""
        if not run.run:
            return None
        config = run.run.config
        location = config.bank_location(run.folder)
        resolved = Path(os.path.normpath(location.absolute())) if isinstance(location, Path) else location
        return next((key for key, bank in self.banks.items() if bank == resolved), None)

    def get(self, key: str) -> RunTail:
        """The run with this key, up to date; raises UserError if there is none."""
        run = self.runs.get(key)
        if run is None:
            raise UserError(f"the dashboard serves no run '{key}'.")
        run.refresh()
        self._release_oldest(key)
        return run

    def summary_row(self, key: str) -> RunRow:
        """The summary of a run for the list; reads the run again if its files changed."""
        run = self.runs[key]
        stamps = (has_writer(run.folder), *(file_stamp(run.folder / name) for name in WATCHED_FILES))
        if key not in self.rows or self.row_stamps.get(key) != stamps:
            run.refresh()
            self.rows[key], self.row_stamps[key] = summarize_run(run), stamps
            self._release_oldest(key)
        return self.rows[key]

    def unread_keys(self) -> list[str]:
        """Runs that were not read yet, newest first."""
        keys = [key for key in self.runs if key not in self.rows]
        return sorted(keys, key=lambda key: self.runs[key].folder.name, reverse=True)

    def _release_oldest(self, key: str) -> None:
        """Release the memory of the least recently used runs."""
        self._recently_used = [*(one for one in self._recently_used if one != key and one in self.runs), key]
        total = sum(self.runs[one].bytes_read for one in self._recently_used)
        for one in self._recently_used[:-1]:
            if total <= MAX_CACHED_BYTES:
                break
            total -= self.runs[one].bytes_read
            self.runs[one].release_memory()


def unique_key(name: str, taken: dict[str, T]) -> str:
    """A key that is not taken yet; slashes become tildes, so that the key is one part of a URL."""
    key = name.replace("/", "~") or "run"
    number = 2
    while key in taken:
        key, number = f"{name.replace('/', '~')}~{number}", number + 1
    return key


def find_run_folders(root: Path) -> Iterator[tuple[Path, str]]:
    """Run folders at or below a root with their names relative to it; symbolic links are not followed."""
    if (root / "run.toml").is_file():
        yield root, root.name
        return
    for folder, subfolders, files in os.walk(root, onerror=ignore_error):
        path = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        if "run.toml" in files:
            subfolders.clear()
            yield path, path.relative_to(root).as_posix()
        elif len(path.relative_to(root).parts) >= MAX_DEPTH:
            subfolders.clear()


def ignore_error(error: OSError) -> None:
    """Skip a folder that cannot be read: it has no run that could be shown."""
