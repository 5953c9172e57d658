"""Reads what msprof and torch_npu's profiler leave: durations of one operator's launches, and figures under the profiler's own names.

Columns are found by name, whatever their order and case; `N/A` and missing ones are left out, never guessed.
"""

from __future__ import annotations

import csv
import re
import statistics
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import InfraError

BASIC = "OpBasicInfo"
SUMMARIES = ("op_summary", "kernel_details")
"""Tables with one row per launch, of the plain profiler and of torch_npu's."""
Row = dict[str, str]


class Measured(NamedTuple):
    """What a card, or its simulator, was seen to take."""

    duration_us: tuple[float, ...]
    """One per launch, in their order."""
    block_dim: int | None
    figures: dict[str, float]
    """By the profiler's column names, the mean over blocks and launches."""
    frequency: float | None
    """The clock in MHz during the launches, as the profiler tells it."""

    @property
    def us(self) -> float:
        return statistics.median(self.duration_us)


@lru_cache
def known() -> dict[str, Any]:
    """Read when first needed."""
    return tomllib.loads((Path(__file__).parent / "profiler.toml").read_text())


def read(folder: Path, operator: str) -> Measured:
    """What is in the profiler's folder about an operator, called by its type or its kernel's name."""
    tables = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".csv" and path.is_file())
    if not tables:
        raise InfraError("the profiler left no table: is the card's driver as new as the CANN toolkit?")
    basics = [path for path in tables if is_table(path, BASIC)]
    if basics:
        return from_launches(basics, operator)
    for name in SUMMARIES:
        if found := [path for path in tables if path.stem.lower().startswith(name)]:
            return from_summary(found, operator)
    raise InfraError(f"the profiler left no {BASIC}.csv, only {', '.join(path.name for path in tables[:5])}")


def from_launches(basics: list[Path], operator: str) -> Measured:
    """Folders of `msprof op`: one per launch, or one for all."""
    mine = [(path, row) for path in basics for row in rows(path) if is_called(row, operator)]
    if not mine:
        raise not_found(operator, (row for path in basics for row in rows(path)))
    folders = list(dict.fromkeys(path.parent for path, _ in mine))
    details = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix.lower() == ".csv"]
    figures: dict[str, list[float]] = {}
    for table in known()["tables"]:
        here = [row for path in details if is_table(path, table) for row in rows(path)]
        collect(here if table != BASIC else [], operator, known()["tables"][table], figures)
    return measured([row for _, row in mine], figures, operator)


def from_summary(tables: list[Path], operator: str) -> Measured:
    """One row per launch, with all columns in it."""
    everything = [row for path in tables for row in rows(path)]
    mine = [row for row in everything if is_called(row, operator)]
    if not mine:
        raise not_found(operator, everything)
    figures: dict[str, list[float]] = {}
    collect(mine, operator, [name for table in known()["tables"].values() for name in table], figures)
    return measured(mine, figures, operator)


def measured(launches: list[Row], figures: dict[str, list[float]], operator: str) -> Measured:
    """Durations must be there; everything else may be missing."""
    durations = [value for row in launches if (value := number(cell(row, "duration"))) is not None]
    if not durations:
        raise InfraError(f"the profiler's table has no duration of {operator}: its columns are {', '.join(launches[0])}")
    blocks = number(cell(launches[0], "blocks"))
    means = {name: statistics.fmean(values) for name, values in figures.items()}
    return Measured(tuple(durations), int(blocks) if blocks is not None else None, means, number(cell(launches[0], "frequency")))


def collect(found: list[Row], operator: str, names: list[str], figures: dict[str, list[float]]) -> None:
    """Adds every number of the rows under its column's own name; rows of other operators are passed over."""
    spelled = {name.lower(): name for name in names}
    ids = {name.lower() for key in ("keys", "name", "duration", "blocks", "frequency") for name in known()["columns"][key]}
    for row in found:
        if has_name(row) and not is_called(row, operator):
            continue
        for column, text in row.items():
            value = number(text)
            if value is not None and column.lower() not in ids:
                figures.setdefault(spelled.get(column.lower(), column), []).append(value)


def rows(path: Path) -> Iterator[Row]:
    """A table's rows; a marker of its encoding, spaces and empty lines do no harm."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InfraError(f"the profiler's {path.name} cannot be read: {error.strerror}") from error
    for row in csv.DictReader(text.splitlines()):
        yield {name.strip(): (value or "").strip() for name, value in row.items() if name and isinstance(value, str | None)}


def is_table(path: Path, name: str) -> bool:
    """Newer versions put a time behind a table's name."""
    return re.fullmatch(rf"{name}([_\-.]?\d[\d_\-.]*)?", path.stem, re.IGNORECASE) is not None


def cell(row: Row, what: str) -> str:
    """The first of the columns that may hold it."""
    lower = {name.lower(): value for name, value in row.items()}
    return next((lower[name.lower()] for name in known()["columns"][what] if is_filled(lower.get(name.lower(), ""))), "")


def is_filled(text: str) -> bool:
    return text.strip().upper() not in ("", "N/A", "NA", "NULL", "-")


def number(text: str) -> float | None:
    """None where there is none; units and signs of per cent stand in the column's name."""
    try:
        value = float(text.rstrip("%")) if is_filled(text) else None
    except ValueError:
        return None
    return value if value is not None and value == value and abs(value) != float("inf") else None


def names_in(row: Row) -> list[str]:
    lower = {name.lower(): value for name, value in row.items()}
    return [lower[name.lower()] for name in known()["columns"]["name"] if is_filled(lower.get(name.lower(), ""))]


def has_name(row: Row) -> bool:
    return bool(names_in(row))


def is_called(row: Row, operator: str) -> bool:
    """Kernels are called by their type, or by their function with a hash, a number or `_mix_aiv` behind it."""
    letters = re.sub(r"[^a-z0-9]", "", operator.lower())
    wanted = re.compile("_?".join(letters) + "(?![a-z])", re.IGNORECASE)
    return any(wanted.match(name) for name in names_in(row))


def not_found(operator: str, others: Iterable[Row]) -> InfraError:
    there = sorted({name for row in others for name in names_in(row)[:1]})
    return InfraError(f"the profiler saw no launch of {operator}, only of {', '.join(there[:5]) or 'nothing'}")
