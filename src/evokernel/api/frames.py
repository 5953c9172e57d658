"""Data frames of runs and memory banks: `ek.attempts_df` and `ek.values_df`. They need pandas, the extra `frames`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evokernel.api.runs import Run, open_run
from evokernel.core.bank_uri import BankLocation, parse_location, resolve_path
from evokernel.core.errors import UserError
from evokernel.core.records import Attempt
from evokernel.memory.bank import Bank
from evokernel.reports import metrics

if TYPE_CHECKING:
    import pandas as pd

NEEDS_PANDAS = "data frames need pandas. Install it with: pip install 'evokernel[frames]'"
AnyRun = Run | str | os.PathLike[str]
"""A run, or the folder of one."""


def attempts_df(runs: AnyRun | Iterable[AnyRun]) -> pd.DataFrame:
    """Return the attempts of runs as a data frame with one row each.

    Columns: `run`, `task`, `attempt`, `round` (from 0), `stage`, `backend`, `generator`, `policy`, `seed`, `compiled`,
    `correct`, `gate` and `reason` of the failure, `latency_us`, `noise`, `speedup` over the first `baseline`, `clock`,
    `reward`, `best` (whether it is the task's best kernel), `reevaluated_us`, `bottleneck`, `start_point`, `shown_items`,
    `model`, `input_tokens`, `output_tokens`, `cost_usd`, `verify_s` and `finished_at`. What was not measured or not reported
    is missing, never 0.

    Args:
        runs: A run, the folder of one, or several of these.

    Raises:
        UserError: pandas is not installed, or a folder is not a run.
    """
    pandas = import_pandas()
    rows = [row for one in as_runs(runs) for row in attempt_rows(one)]
    frame = pandas.DataFrame(rows, columns=list(ATTEMPT_COLUMNS))
    frame["finished_at"] = pandas.to_datetime(frame["finished_at"], unit="s", utc=True)
    return frame.astype({name: kind for name, kind in ATTEMPT_COLUMNS.items() if kind})


def values_df(source: AnyRun) -> pd.DataFrame:
    """Return the memory items of a bank with their learned values as a data frame, one row per item, stage and scope.

    Columns: `item`, `kind`, `backend`, `family`, `task`, `title`, `run` that wrote it, `stage`, `scope`, `q` and `visits`. An
    item without a value has one row in which `stage` and `q` are missing.

    Args:
        source: A run, the folder of one, or a memory bank: its file or `postgresql://…`.

    Raises:
        UserError: pandas is not installed, or there is no such bank.
    """
    pandas = import_pandas()
    with Bank.open_reader(find_bank(source)) as bank:
        values: dict[str, list[Any]] = {}
        for one in bank.list_values(scope=None):
            values.setdefault(one.item, []).append((one.stage, one.scope, one.q, one.visits))
        rows = [
            (entry.item.id, entry.item.kind, entry.item.backend, entry.item.family, entry.item.task, entry.item.title, entry.run, *value)
            for entry in bank.find_items()
            for value in values.get(entry.item.id, [(None, None, None, None)])
        ]
    frame = pandas.DataFrame(rows, columns=list(VALUE_COLUMNS))
    return frame.astype({name: kind for name, kind in VALUE_COLUMNS.items() if kind})


ATTEMPT_COLUMNS = {
    **dict.fromkeys(("run", "task", "attempt"), ""),
    "round": "int64",
    **dict.fromkeys(("stage", "backend", "generator", "policy"), ""),
    "seed": "int64",
    **dict.fromkeys(("compiled", "correct"), "bool"),
    **dict.fromkeys(("gate", "reason"), ""),
    **dict.fromkeys(("latency_us", "noise", "speedup"), "float64"),
    **dict.fromkeys(("baseline", "clock"), ""),
    "reward": "float64",
    "best": "bool",
    "reevaluated_us": "float64",
    **dict.fromkeys(("bottleneck", "start_point"), ""),
    "shown_items": "int64",
    "model": "",
    **dict.fromkeys(("input_tokens", "output_tokens"), "Int64"),
    **dict.fromkeys(("cost_usd", "verify_s"), "float64"),
    "finished_at": "",
}
"""Columns of `attempts_df` with their types; an empty type leaves it to pandas."""
VALUE_COLUMNS = {
    **dict.fromkeys(("item", "kind", "backend", "family", "task", "title", "run", "stage", "scope"), ""),
    "q": "float64",
    "visits": "Int64",
}
"""Columns of `values_df` with their types."""


def import_pandas() -> ModuleType:
    """Import pandas. Raises UserError if it is not installed."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise UserError(NEEDS_PANDAS) from error
    module: ModuleType = pandas
    return module


def as_runs(runs: AnyRun | Iterable[AnyRun]) -> list[Run]:
    """Return runs, opened if only their folders are given."""
    several = list(runs) if isinstance(runs, Iterable) and not isinstance(runs, str | os.PathLike) else [runs]
    return [one if isinstance(one, Run) else open_run(one) for one in several]


def find_bank(source: AnyRun) -> BankLocation:
    """Return the bank of a run, or the bank that a path or URL names."""
    if not isinstance(source, Run):
        if not isinstance(source, str | os.PathLike):
            raise UserError(f"values_df takes a run, the folder of one, or a memory bank, not {type(source).__name__}.")
        text = os.fspath(source)
        if not (Path(text) / "run.toml").is_file():
            return parse_location(resolve_path(text))
        source = open_run(source)
    return source.config.bank_location(source.folder)


def attempt_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one run, in the order of its journal."""
    config = run.config
    results = {result.task.id: result for result in run.results}
    parts = tuple(config.plugin_name(part) for part in ("backend", "generator", "policy"))
    for attempt in run.attempts:
        yield attempt_row(attempt, results[attempt.task], run.id, (*parts, config.seed))


def attempt_row(attempt: Attempt, result: metrics.TaskResult, run_id: str, settings: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the row of one attempt, in the order of ATTEMPT_COLUMNS."""
    outcome, failure, usage = attempt.outcome, attempt.outcome.failure, attempt.usage
    final = result.reevaluations.get(attempt.id)
    figures = (outcome.latency_us, outcome.noise, outcome.speedup, outcome.baseline_name or None, outcome.clock or None, attempt.reward)
    return (
        *(run_id, attempt.task, attempt.id, attempt.round, attempt.stage.value, *settings),
        *(outcome.is_compiled, result.is_correct(attempt), failure.gate if failure else None, failure.reason if failure else None),
        *figures,
        *(result.best is not None and result.best.id == attempt.id, final.outcome.latency_us if final else None),
        *(outcome.profile.bottleneck if outcome.profile else None, attempt.start_point, len(attempt.shown_items)),
        *(usage.model or None, usage.input_tokens, usage.output_tokens, usage.cost_usd),
        *(sum(gate.seconds for gate in outcome.gates), attempt.finished_at or None),
    )
