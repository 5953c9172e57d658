"""Reads the tables of msprof and of torch_npu's profiler: the launch durations of one operator, and the profiler's own figures.

Columns are found by name, ignoring order and case. `N/A` and missing values are omitted.
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

BASIC_TABLE = "OpBasicInfo"
SUMMARY_TABLES = ("op_summary", "kernel_details")
"""Tables with one row per launch, of msprof and of torch_npu's profiler."""
Row = dict[str, str]


class Measurement(NamedTuple):
    """Measured durations and figures of an operator, from an NPU or from CANN's simulator."""

    duration_us: tuple[float, ...]
    """One per launch, in order."""
    block_dim: int | None
    figures: dict[str, float]
    """Means over blocks and launches, by the profiler's column names."""
    frequency: float | None
    """Clock in MHz during the launches, as the profiler reports it."""

    @property
    def us(self) -> float:
        return statistics.median(self.duration_us)


@lru_cache
def load_columns() -> dict[str, Any]:
    """The contents of `profiler.toml`."""
    return tomllib.loads((Path(__file__).parent / "profiler.toml").read_text())


def read_profile(folder: Path, operator: str) -> Measurement:
    """Read the measurement of an operator, given by its type or kernel name, from the profiler's folder."""
    tables = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".csv" and path.is_file())
    if not tables:
        raise InfraError("The profiler wrote no table. Check that the NPU driver is as new as the CANN toolkit")
    basics = [path for path in tables if is_table(path, BASIC_TABLE)]
    if basics:
        return read_launch_tables(basics, operator)
    for name in SUMMARY_TABLES:
        if summaries := [path for path in tables if path.stem.lower().startswith(name)]:
            return read_summary(summaries, operator)
    raise InfraError(f"The profiler wrote no {BASIC_TABLE}.csv, only {', '.join(path.name for path in tables[:5])}")


def read_launch_tables(basics: list[Path], operator: str) -> Measurement:
    """Read the folders of `msprof op`: one per launch, or one for all launches."""
    mine = [(path, row) for path in basics for row in read_rows(path) if is_row_of(row, operator)]
    if not mine:
        raise missing_launch_error(operator, (row for path in basics for row in read_rows(path)))
    folders = list(dict.fromkeys(path.parent for path, _ in mine))
    details = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix.lower() == ".csv"]
    figures: dict[str, list[float]] = {}
    for table in load_columns()["tables"]:
        here = [row for path in details if is_table(path, table) for row in read_rows(path)]
        collect_figures(here if table != BASIC_TABLE else [], operator, load_columns()["tables"][table], figures)
    return summarize_launches([row for _, row in mine], figures, operator)


def read_summary(tables: list[Path], operator: str) -> Measurement:
    """Read a table with one row per launch that has all columns."""
    everything = [row for path in tables for row in read_rows(path)]
    mine = [row for row in everything if is_row_of(row, operator)]
    if not mine:
        raise missing_launch_error(operator, everything)
    figures: dict[str, list[float]] = {}
    collect_figures(mine, operator, [name for table in load_columns()["tables"].values() for name in table], figures)
    return summarize_launches(mine, figures, operator)


def summarize_launches(launches: list[Row], figures: dict[str, list[float]], operator: str) -> Measurement:
    """Create a Measurement. Durations are required; all other figures are optional."""
    durations = [value for row in launches if (value := parse_number(find_cell(row, "duration"))) is not None]
    if not durations:
        raise InfraError(f"The profiler's table has no duration of {operator}: its columns are {', '.join(launches[0])}")
    blocks = parse_number(find_cell(launches[0], "blocks"))
    means = {name: statistics.fmean(values) for name, values in figures.items()}
    return Measurement(
        tuple(durations), int(blocks) if blocks is not None else None, means, parse_number(find_cell(launches[0], "frequency"))
    )


def collect_figures(table_rows: list[Row], operator: str, names: list[str], figures: dict[str, list[float]]) -> None:
    """Add every number of the rows to `figures`, by column name. Rows of other operators are skipped."""
    canonical_names = {name.lower(): name for name in names}
    ids = {name.lower() for key in ("keys", "name", "duration", "blocks", "frequency") for name in load_columns()["columns"][key]}
    for row in table_rows:
        if has_name(row) and not is_row_of(row, operator):
            continue
        for column, text in row.items():
            value = parse_number(text)
            if value is not None and column.lower() not in ids:
                figures.setdefault(canonical_names.get(column.lower(), column), []).append(value)


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table. A byte order mark, spaces and empty lines are ignored."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InfraError(f"Cannot read the profiler's {path.name}: {error.strerror}") from error
    for row in csv.DictReader(text.splitlines()):
        yield {name.strip(): (value or "").strip() for name, value in row.items() if name and isinstance(value, str | None)}


def is_table(path: Path, name: str) -> bool:
    """Whether a file is the given table; newer versions append a time to its name."""
    return re.fullmatch(rf"{name}([_\-.]?\d[\d_\-.]*)?", path.stem, re.IGNORECASE) is not None


def find_cell(row: Row, what: str) -> str:
    """The value of the first filled column of a kind."""
    lower = {name.lower(): value for name, value in row.items()}
    return next((lower[name.lower()] for name in load_columns()["columns"][what] if is_filled(lower.get(name.lower(), ""))), "")


def is_filled(text: str) -> bool:
    return text.strip().upper() not in ("", "N/A", "NA", "NULL", "-")


def parse_number(text: str) -> float | None:
    """Parse a cell; None if it has no number. A per cent sign is ignored, because the column name has the unit."""
    try:
        value = float(text.rstrip("%")) if is_filled(text) else None
    except ValueError:
        return None
    return value if value is not None and value == value and abs(value) != float("inf") else None


def operator_names(row: Row) -> list[str]:
    lower = {name.lower(): value for name, value in row.items()}
    return [lower[name.lower()] for name in load_columns()["columns"]["name"] if is_filled(lower.get(name.lower(), ""))]


def has_name(row: Row) -> bool:
    return bool(operator_names(row))


def is_row_of(row: Row, operator: str) -> bool:
    """Whether a row belongs to an operator: its name is the type, or the kernel function with a hash, a number or `_mix_aiv` appended."""
    letters = re.sub(r"[^a-z0-9]", "", operator.lower())
    name_pattern = re.compile("_?".join(letters) + "(?![a-z])", re.IGNORECASE)
    return any(name_pattern.match(name) for name in operator_names(row))


def missing_launch_error(operator: str, others: Iterable[Row]) -> InfraError:
    there = sorted({name for row in others for name in operator_names(row)[:1]})
    return InfraError(f"The profiler recorded no launch of {operator}, only of {', '.join(there[:5]) or 'nothing'}")
