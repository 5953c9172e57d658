"""A memory pack as a file: JSON lines, of which the first says what the others are, where they come from, and what they hash to."""

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
from evokernel.memory.ledger import Update
from evokernel.memory.provenance import Origin

FORMAT = 3
PLAIN = 2
"""The format of packs in which nothing was merged, which an older evokernel reads."""
UNSIGNED = 1
"""The format before packs had a header."""


class Filters(Record):
    """What was asked for when a pack was made; everything where nothing was."""

    backend: str = ""
    kinds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Kept: ids or patterns."""
    suites: tuple[str, ...] = ()
    """Kept, besides."""
    without: tuple[str, ...] = ()
    """Left out: ids, suites or patterns."""
    held_out: str = ""
    """Operators of which nothing may be told, as `--tasks` takes them."""


class Header(Record):
    """The first line."""

    evokernel_memory: int = PLAIN
    sha256: str = ""
    """Of every byte after this line: equal content, equal hash."""
    seal: str = ""
    """SHA-256 of this line without it."""
    evokernel: str = ""
    made: str = ""
    """When, in UTC."""
    items: int = 0
    updates: int = 0
    kinds: dict[str, int] = {}
    backends: dict[str, int] = {}
    tasks: dict[str, tuple[str, ...]] = {}
    """What the items came from, with the SHA-256 of each reference's text: several where it changed, none where nobody knows it."""
    runs: tuple[Origin, ...] = ()
    filters: Filters = Filters()


class Merged(Record):
    """An item whose updates count for another one."""

    item: str
    survivor: str


class Line(Record):
    """Any other line: an item with the run that wrote it, one update of a value, or what an item that is not there counts for."""

    item: MemoryItem | None = None
    run: str = ""
    update: Update | None = None
    merged: Merged | None = None


class Held(NamedTuple):
    """An item of a pack, and the run that wrote it; empty for seed knowledge."""

    item: MemoryItem
    run: str


class Pack(NamedTuple):
    """A pack, read."""

    header: Header
    sha256: str
    """Of what was read, whatever the header says."""
    items: tuple[Held, ...]
    updates: tuple[Update, ...]
    merged: tuple[Merged, ...]
    fault: str
    """Why it is not what was exported; empty when it is, or when nobody signed it."""

    @property
    def is_signed(self) -> bool:
        return self.header.evokernel_memory > UNSIGNED


def first_line(header: Header) -> str:
    """A header as it is written, sealed."""
    bare = header.model_dump(mode="json", exclude_none=True, exclude={"seal"})
    return json.dumps({**bare, "seal": seal(bare)}) + "\n"


def seal(bare: dict[str, object]) -> str:
    """The hash of a header without its seal, however it is laid out."""
    return hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def described(items: Iterable[MemoryItem]) -> dict[str, object]:
    """What a header says of items."""
    listed = list(items)
    tasks: dict[str, set[str]] = {}
    for item in listed:
        if item.task is not None:
            tasks.setdefault(item.task, set()).update([hashlib.sha256(item.key.encode()).hexdigest()] if item.key else [])
    return {
        "evokernel": __version__,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "items": len(listed),
        "kinds": dict(sorted(Counter(item.kind for item in listed).items())),
        "backends": dict(sorted(Counter(item.backend for item in listed).items())),
        "tasks": {task: tuple(sorted(found)) for task, found in sorted(tasks.items())},
    }


def read(file: Path, unsigned: bool = False) -> Pack:
    """A pack, checked; the first wrong line is named. One that is not what was exported is refused, unless `unsigned`."""
    try:
        top, _, body = file.read_bytes().partition(b"\n")
    except OSError as error:
        raise UserError(f"cannot read memory pack {file}: {error.strerror or error}; 'evokernel memory export' makes one") from error
    header, sha256 = opened(file, top), hashlib.sha256(body).hexdigest()
    fault = wrong(header, top, sha256)
    if fault and not unsigned:
        raise UserError(f"{file} is not what was exported: {fault}; get it again, or take it as it is with --unsigned")
    lines = list(parsed(file, body))
    items = tuple(Held(line.item, line.run) for line in lines if line.item)
    updates = tuple(line.update for line in lines if line.update)
    return Pack(header, sha256, items, updates, tuple(line.merged for line in lines if line.merged), fault)


def opened(file: Path, top: bytes) -> Header:
    """The header, of whatever format."""
    try:
        found = json.loads(top)
    except ValueError:
        found = None
    number = found.get("evokernel_memory") if isinstance(found, dict) else None
    if not isinstance(number, int):
        raise UserError(f"{file} is not a memory pack: make one with evokernel memory export")
    if number > FORMAT:
        raise UserError(f"{file} was made by a newer evokernel (format {number}, this one knows {FORMAT}): update it")
    try:
        return Header.model_validate(found)
    except ValidationError as error:
        raise UserError(f"{file}, line 1 is not the header of a memory pack: {said(error)}; get it again") from error


def wrong(header: Header, top: bytes, sha256: str) -> str:
    """What does not fit the hashes; nothing in the format that had none."""
    if header.evokernel_memory <= UNSIGNED:
        return ""
    if sha256 != header.sha256:
        return f"its lines hash to {sha256[:12]}, not to {header.sha256[:12]} as its header says (changed, or cut off)"
    bare = {name: value for name, value in json.loads(top).items() if name != "seal"}
    return "" if seal(bare) == header.seal else "its header was changed"


def parsed(file: Path, body: bytes) -> Iterator[Line]:
    """The lines after the header. Texts may hold any character that only some call the end of a line."""
    for number, text in enumerate(body.split(b"\n"), start=2):
        if not text.strip():
            continue
        try:
            line = Line.model_validate_json(text)
        except ValidationError as error:
            raise UserError(f"{file}, line {number} is not part of a memory pack: {said(error)}") from error
        if line.update and not is_sound(line.update):
            raise UserError(f"{file}, line {number} is no update of a value: it takes 0 < alpha <= 1, a finite reward, a known stage")
        yield line


def is_sound(update: Update) -> bool:
    """Whether Q stays bounded with it."""
    return 0 < update.alpha <= 1 and isfinite(update.reward) and update.stage in set(Stage)


def said(error: ValidationError) -> str:
    """The first thing that is wrong, in one line."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where + ': ' if where else ''}{first['msg'].lower()}"
