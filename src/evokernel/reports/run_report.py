"""Writes the report page of a run together with the values in its memory bank. Problems of disk or bank lose no results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.memory.bank import Bank
from evokernel.reports.page import ItemValues, write_report


class RunReport(NamedTuple):
    """The report page of a run."""

    path: Path | None
    error: UserError | None = None
    """Why there is no page, for example a full disk."""
    note: str = ""
    """Why the page lacks the values of memory items."""


def write_run_report(run: Run, attempts: Sequence[Attempt], out: Path | None = None) -> RunReport:
    """Write plots and page; item values come from the current state of the run's memory bank."""
    values, note = None, ""
    try:
        values = load_item_values(run)
    except (UserError, InfraError) as error:  # for example a bank that was moved
        note = str(error)
    try:
        return RunReport(write_report(run, attempts, values, out), note=note)
    except UserError as error:
        return RunReport(None, error, note)


def load_item_values(run: Run) -> list[ItemValues]:
    """Load the items for this run's backend and their values."""
    with Bank.open_reader(run.config.bank_location(run.folder)) as bank:
        values_by_stage = {(one.item, one.stage): one for one in bank.list_values()}
        items = []
        for entry in bank.find_items(backend=run.config.plugin_name("backend")):
            first, second = (values_by_stage.get((entry.item.id, stage)) for stage in ("draft", "refine"))
            items.append(
                ItemValues(
                    id=entry.item.id,
                    kind=entry.item.kind,
                    title=entry.item.title,
                    q1=first.q if first else None,
                    visits1=first.visits if first else 0,
                    q2=second.q if second else None,
                    visits2=second.visits if second else 0,
                )
            )
        return items
