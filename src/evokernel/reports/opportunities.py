"""The opportunities of a kernel as a table, and its source with the gain beside each line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evokernel.core.causes import CAUSES
from evokernel.core.records import Outcome
from evokernel.reports.tables import Cell, Column, Table

NOTE = "Gain: what the kernel would save without the cause. Gains overlap, so they do not add up."


class SourceLine(NamedTuple):
    """A line of a kernel with the largest gain that an opportunity promises there."""

    number: int
    text: str
    gain_us: float | None
    """None if no opportunity names the line."""
    cause: str


def opportunity_table(outcome: Outcome) -> Table | None:
    """Return one row per opportunity, largest gain first; None if the profile has none."""
    opportunities = outcome.profile.opportunities if outcome.profile else ()
    if not opportunities:
        return None
    columns = (Column("cause"), Column("line", "count"), Column("gain", "us"), Column("of latency", "share"), Column("next move"))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one.cause,
            one.line or "",
            one.gain_us,
            latency_share(outcome, one.gain_us),
            one.summary + (f" Card: {one.card}." if one.card else ""),
        )
        for one in opportunities
    )
    return Table("Opportunities", columns, rows, NOTE)


def latency_share(outcome: Outcome, gain_us: float) -> float | None:
    """Return the gain as a share of the latency; None if the kernel was not timed."""
    return gain_us / outcome.latency_us if outcome.latency_us else None


def opportunity_records(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the opportunities for JSON output, with the meaning of the cause and the share of the latency."""
    opportunities = outcome.profile.opportunities if outcome.profile else ()
    return [
        {**one.model_dump(mode="json"), "meaning": CAUSES.get(one.cause), "share": latency_share(outcome, one.gain_us)}
        for one in opportunities
    ]


def explain_cause(cause: str) -> str:
    """Return the meaning of a cause as a sentence; empty for an unknown one."""
    return f"The kernel loses time by {CAUSES[cause]}." if cause in CAUSES else ""


def annotate_source(files: Mapping[str, str], outcome: Outcome) -> dict[str, list[SourceLine]]:
    """Return the lines of the file that opportunities refer to; empty if no opportunity names a line of it."""
    opportunities = [one for one in (outcome.profile.opportunities if outcome.profile else ()) if one.line]
    name = main_file(files)
    if not opportunities or name is None:
        return {}
    largest = {one.line: one for one in sorted(opportunities, key=lambda one: one.gain_us)}
    lines = [
        SourceLine(number, text, largest[number].gain_us if number in largest else None, largest[number].cause if number in largest else "")
        for number, text in enumerate(files[name].splitlines(), start=1)
    ]
    return {name: lines} if any(line.gain_us is not None for line in lines) else {}


def main_file(files: Mapping[str, str]) -> str | None:
    """Return the file whose lines profiles count: the only one, or the only one whose name begins with `kernel`."""
    names = list(files) if len(files) == 1 else [name for name in files if name.rpartition("/")[2].startswith("kernel")]
    return names[0] if len(names) == 1 else None
