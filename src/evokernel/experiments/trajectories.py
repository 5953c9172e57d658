"""What runs leave for those who train models: one row per attempt, with what was shown, what came back, how it was judged and earned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, MemoryItem, Task
from evokernel.core.run import Run
from evokernel.memory.bank import Bank

Row = dict[str, Any]
FORMATS = (".jsonl", ".parquet")
NESTED = ("shown", "files", "versions", "settings")
"""Columns that are JSON texts in Parquet: their parts differ from row to row."""


def rows(run: Run, only_feasible: bool = False) -> Iterator[Row]:
    """A run's attempts, in the order in which they were learned from."""
    tasks = {task.id: task for task in run.tasks}
    attempts = run.attempts()
    items = shown_items(run, attempts)
    for attempt in attempts:
        if attempt.task in tasks and (attempt.outcome.feasible or not only_feasible):
            yield row(run, tasks[attempt.task], attempt, items)


def row(run: Run, task: Task, attempt: Attempt, items: dict[str, MemoryItem]) -> Row:
    """One attempt. What is not known is None, never 0."""
    outcome, failure, usage = attempt.outcome, attempt.outcome.failure, attempt.usage
    return {
        "run": attempt.run,
        "attempt": attempt.id,
        "task": task.id,
        "family": task.family,
        "category": task.category,
        "level": task.level,
        "reference": task.source,
        "backend": attempt.candidate.backend,
        "generator": run.config.plugin_name("generator"),
        "policy": run.config.plugin_name("policy"),
        "model": usage.model or None,
        "seed": run.config.seed,
        "stage": attempt.stage.value,
        "round": attempt.round,
        "prompt": text_of(run, attempt, "reply.prompt.md"),
        "reply": text_of(run, attempt, "reply.md"),
        "files": dict(attempt.candidate.files),
        "notes": attempt.candidate.notes,
        "lesson": attempt.lesson,
        "shown": [shown(ref.id, ref.role, ref.q, items) for ref in attempt.shown_items],
        "start": attempt.start_point,
        "compiled": outcome.is_compiled,
        "feasible": outcome.feasible,
        "gate": failure.gate if failure else None,
        "reason": failure.reason if failure else None,
        "feedback": failure.detail if failure else None,
        "latency_us": outcome.latency_us,
        "clock": outcome.clock or None,
        "baseline": outcome.baseline_name or None,
        "baseline_us": outcome.baseline_latency_us(),
        "speedup": outcome.speedup,
        "protocol": outcome.protocol or None,
        "reward": attempt.reward,
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "cost_usd": usage.cost_usd if usage.calls else None,
        "finished_at": attempt.finished_at or None,
        "versions": dict(run.facts.get("versions", {})),
        "settings": run.config.model_dump(mode="json", include={"backend", "generator", "policy", "budget", "protocol"}),
    }


def shown(id: str, role: str, q: float | None, items: dict[str, MemoryItem]) -> Row:
    """An item of the context as the generator saw it; its words only where the bank still has it."""
    item = items.get(id)
    told = {"kind": item.kind, "title": item.title, "text": item.text, "code": item.code, "task": item.task} if item else {}
    return {"id": id, "role": role, "q": q, **told}


def shown_items(run: Run, attempts: Iterable[Attempt]) -> dict[str, MemoryItem]:
    """What was in contexts, from the run's bank; nothing where that is gone."""
    path = run.folder / "memory.db" if run.config.fresh else parse_location(run.config.memory)
    if isinstance(path, Path) and not path.is_file():
        return {}
    wanted = {ref.id for attempt in attempts for ref in attempt.shown_items}
    with Bank.read(path) as bank:
        return {entry.item.id: entry.item for entry in bank.entries(archived=None) if entry.item.id in wanted and not entry.revoked}


def text_of(run: Run, attempt: Attempt, name: str) -> str | None:
    """A text that was kept with the attempt; None for one whose kernel was taken back, or that was never kept."""
    if not attempt.candidate.files and attempt.outcome.failure and attempt.outcome.failure.reason == "revoked":
        return None
    try:
        return (run.artifact_folder(attempt.id) / name).read_text(encoding="utf-8") or None
    except OSError:
        return None


def write(found: Iterable[Row], file: Path) -> int:
    """By the file's ending; gives the number of rows."""
    if file.suffix not in FORMATS:
        raise UserError(f"{file}: name a file that ends in {' or '.join(FORMATS)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return write_lines(found, file) if file.suffix == ".jsonl" else write_parquet(found, file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}; choose another place") from error


def write_lines(found: Iterable[Row], file: Path) -> int:
    new, count = file.with_name(f".{file.name}.new"), 0
    with new.open("w", encoding="utf-8") as out:
        for one in found:
            out.write(json.dumps(one, ensure_ascii=False) + "\n")
            count += 1
    new.replace(file)
    return count


def write_parquet(found: Iterable[Row], file: Path) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise UserError("Parquet needs pyarrow: pip install 'evokernel[parquet]', or name a .jsonl file") from error
    kept = [{name: json.dumps(value, ensure_ascii=False) if name in NESTED else value for name, value in one.items()} for one in found]
    if not kept:
        raise UserError("there is no attempt to write")
    types = {"level": pa.int64(), "round": pa.int64(), "seed": pa.int64(), "tokens_in": pa.int64(), "tokens_out": pa.int64()}
    types |= dict.fromkeys(("latency_us", "baseline_us", "speedup", "reward", "cost_usd", "finished_at"), pa.float64())
    types |= dict.fromkeys(("compiled", "feasible"), pa.bool_())
    schema = pa.schema([(name, types.get(name, pa.string())) for name in kept[0]])
    new = file.with_name(f".{file.name}.new")
    pq.write_table(pa.Table.from_pylist(kept, schema=schema), new, compression="zstd")
    new.replace(file)
    return len(kept)
