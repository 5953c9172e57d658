"""The file format of memory packs: JSON lines, of which the first is a header with the contents, the provenance and the checksums."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evokernel import __version__
from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem, Record, Stage
from evokernel.memory.ledger import ValueUpdate
from evokernel.memory.provenance import RunProvenance

FORMAT = 4


class PackFilters(Record):
    """The filters of an export; an empty filter selects everything."""

    backend: str = ""
    kinds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Tasks to export: ids or patterns."""
    suites: tuple[str, ...] = ()
    """Suites to export, in addition to `tasks`."""
    exclude: tuple[str, ...] = ()
    """Tasks to leave out: ids, suites or patterns."""
    held_out: str = ""
    """Operators that the pack must reveal nothing about, in the syntax of `--tasks`."""


class PackHeader(Record):
    """The first line of a pack."""

    evokernel_memory: int = FORMAT
    """The format version of the file."""
    sha256: str = ""
    """SHA-256 of every byte after this line, so that equal contents have equal hashes."""
    header_sha256: str = ""
    """SHA-256 of this line without this field."""
    evokernel_version: str = ""
    created_at: str = ""
    """UTC."""
    items: int = 0
    updates: int = 0
    kinds: dict[str, int] = {}
    backends: dict[str, int] = {}
    tasks: dict[str, tuple[str, ...]] = {}
    """The tasks of the items, each with the SHA-256 of its reference text: several if the text changed, none if it is unknown."""
    runs: tuple[RunProvenance, ...] = ()
    filters: PackFilters = PackFilters()


class PackedMerge(Record):
    """An item whose updates count for another item."""

    item: str
    survivor: str


class PackLine(Record):
    """A line after the header: an item with the run that wrote it, one value update, or the survivor of a merged item."""

    item: MemoryItem | None = None
    run: str = ""
    update: ValueUpdate | None = None
    merged: PackedMerge | None = None


class PackedItem(NamedTuple):
    """An item of a pack and the run that wrote it; the run is empty for seed knowledge."""

    item: MemoryItem
    run: str


class MemoryPack(NamedTuple):
    """The contents of a pack file."""

    header: PackHeader
    sha256: str
    """SHA-256 of the lines that were read, whatever the header says."""
    items: tuple[PackedItem, ...]
    updates: tuple[ValueUpdate, ...]
    merges: tuple[PackedMerge, ...]
    integrity_error: str
    """Why the file differs from the exported pack; empty if it does not."""

    def count_tasks(self) -> dict[str, int]:
        """Return the number of items from each task."""
        return dict(sorted(Counter(packed.item.task for packed in self.items if packed.item.task is not None).items()))


def format_header(header: PackHeader) -> str:
    """The first line of the file, with its own checksum."""
    fields = header.model_dump(mode="json", exclude_none=True, exclude={"header_sha256"})
    return json.dumps({**fields, "header_sha256": hash_header(fields)}) + "\n"


def hash_header(fields: dict[str, object]) -> str:
    """SHA-256 of the header fields, without `header_sha256`, independent of their order and spacing."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def summarize_items(items: Iterable[MemoryItem]) -> dict[str, object]:
    """The header fields that describe items: counts by kind and backend, tasks, date, version."""
    listed_items = list(items)
    tasks: dict[str, set[str]] = {}
    for item in listed_items:
        if item.task is not None:
            tasks.setdefault(item.task, set()).update([hashlib.sha256(item.key.encode()).hexdigest()] if item.key else [])
    return {
        "evokernel_version": __version__,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "items": len(listed_items),
        "kinds": dict(sorted(Counter(item.kind for item in listed_items).items())),
        "backends": dict(sorted(Counter(item.backend for item in listed_items).items())),
        "tasks": {task: tuple(sorted(hashes)) for task, hashes in sorted(tasks.items())},
    }


def read_pack(file: Path, allow_modified: bool = False) -> MemoryPack:
    """Read and check a pack; an error names the first wrong line. A changed pack is an error unless `allow_modified`."""
    try:
        first_line, _, body = file.read_bytes().partition(b"\n")
    except OSError as error:
        raise UserError(f"cannot read memory pack {file}: {error.strerror or error}; create one with evokernel memory export") from error
    header, sha256 = parse_header(file, first_line), hashlib.sha256(body).hexdigest()
    integrity_error = find_integrity_error(header, first_line, sha256)
    if integrity_error and not allow_modified:
        raise UserError(f"{file} differs from the exported pack: {integrity_error}; get it again, or accept it with --allow-modified")
    lines = list(parse_lines(file, body))
    items = tuple(PackedItem(line.item, line.run) for line in lines if line.item)
    updates = tuple(line.update for line in lines if line.update)
    return MemoryPack(header, sha256, items, updates, tuple(line.merged for line in lines if line.merged), integrity_error)


def parse_header(file: Path, first_line: bytes) -> PackHeader:
    """The header of a pack file; UserError if the file is not a pack or has another format version."""
    try:
        fields = json.loads(first_line)
    except ValueError:
        fields = None
    version = fields.get("evokernel_memory") if isinstance(fields, dict) else None
    if not isinstance(version, int):
        raise UserError(f"{file} is not a memory pack: create one with evokernel memory export")
    if version > FORMAT:
        raise UserError(f"{file} was written by a newer evokernel (format {version}, this one reads {FORMAT}): update evokernel")
    if version < FORMAT:
        raise UserError(
            f"{file} was written by an older evokernel (format {version}, this one reads {FORMAT}, which renamed fields): "
            "use the evokernel that wrote it, or export a new pack"
        )
    try:
        return PackHeader.model_validate(fields)
    except ValidationError as error:
        raise UserError(f"{file}, line 1 is not the header of a memory pack: {first_validation_error(error)}; get it again") from error


def find_integrity_error(header: PackHeader, first_line: bytes, sha256: str) -> str:
    """The first mismatch between the file and its checksums; empty if there is none."""
    if sha256 != header.sha256:
        return f"its lines hash to {sha256[:12]}, not to {header.sha256[:12]} as in its header (the file was changed or truncated)"
    fields = {name: value for name, value in json.loads(first_line).items() if name != "header_sha256"}
    return "" if hash_header(fields) == header.header_sha256 else "its header was changed"


def parse_lines(file: Path, body: bytes) -> Iterator[PackLine]:
    """The lines after the header. Only `\\n` ends a line: texts may contain other characters that some programs treat as line ends."""
    for number, text in enumerate(body.split(b"\n"), start=2):
        if not text.strip():
            continue
        try:
            line = PackLine.model_validate_json(text)
        except ValidationError as error:
            raise UserError(f"{file}, line {number} is not part of a memory pack: {first_validation_error(error)}") from error
        if line.update and not is_valid_update(line.update):
            raise UserError(
                f"{file}, line {number} is not a valid value update: it needs 0 < alpha <= 1, a finite reward and a known stage"
            )
        yield line


def is_valid_update(update: ValueUpdate) -> bool:
    """Whether Q stays bounded with this update."""
    return 0 < update.alpha <= 1 and isfinite(update.reward) and update.stage in set(Stage)


def first_validation_error(error: ValidationError) -> str:
    """The first validation error, in one line."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field + ': ' if field else ''}{first['msg'].lower()}"
