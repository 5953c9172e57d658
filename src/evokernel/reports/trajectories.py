"""Exports runs as training data: one row per attempt, with its prompt, context, reply, outcome and reward."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, ContextRef, MemoryItem, Task
from evokernel.core.run import Run
from evokernel.memory.bank import Bank

Row = dict[str, Any]
FORMATS = (".jsonl", ".parquet")
JSON_COLUMNS = ("shown_items", "files", "versions", "settings", "steps")
"""Columns that Parquet stores as JSON text, since their structure varies."""


def attempt_rows(run: Run, only_feasible: bool = False) -> Iterator[Row]:
    """Yield a run's attempts in the order of the journal."""
    tasks = {task.id: task for task in run.tasks}
    attempts = run.attempts()
    items = load_shown_items(run, attempts)
    for attempt in attempts:
        if attempt.task in tasks and (attempt.outcome.feasible or not only_feasible):
            yield attempt_row(run, tasks[attempt.task], attempt, items)


def attempt_row(run: Run, task: Task, attempt: Attempt, items: dict[str, MemoryItem]) -> Row:
    """Return one attempt. An unknown value is None, never 0."""
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
        "prompt": read_artifact(run, attempt, "reply.prompt.md"),
        "reply": read_artifact(run, attempt, "reply.md"),
        "files": dict(attempt.candidate.files),
        "notes": attempt.candidate.notes,
        "lesson": attempt.lesson,
        "steps": [step.model_dump(mode="json") for step in attempt.steps],
        "shown_items": [context_item_row(ref, items) for ref in attempt.shown_items],
        "start_point": attempt.start_point,
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
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd if usage.calls else None,
        "finished_at": attempt.finished_at or None,
        "versions": dict(run.environment.get("versions", {})),
        "settings": run.config.model_dump(mode="json", include={"backend", "generator", "policy", "budget", "protocol"}),
    }


def context_item_row(ref: ContextRef, items: dict[str, MemoryItem]) -> Row:
    """Return an item of the context as the generator saw it; without its text if the bank no longer has it."""
    item = items.get(ref.id)
    content = {"kind": item.kind, "title": item.title, "text": item.text, "code": item.code, "task": item.task} if item else {}
    reasons = {"reasons": dict(ref.reasons)} if ref.reasons else {}
    return {"id": ref.id, "role": ref.role, "q": ref.q, **reasons, **content}


def load_shown_items(run: Run, attempts: Iterable[Attempt]) -> dict[str, MemoryItem]:
    """Load the items in contexts from the run's bank; an empty dictionary if the bank is missing."""
    path = run.config.bank_location(run.folder)
    if isinstance(path, Path) and not path.is_file():
        return {}
    shown_ids = {ref.id for attempt in attempts for ref in attempt.shown_items}
    with Bank.open_reader(path) as bank:
        entries = bank.find_items(archived=None)
        return {entry.item.id: entry.item for entry in entries if entry.item.id in shown_ids and not entry.is_revoked}


def read_artifact(run: Run, attempt: Attempt, name: str) -> str | None:
    """Read a text stored with the attempt; None if the attempt was revoked or the text was not stored."""
    if not attempt.candidate.files and attempt.outcome.failure and attempt.outcome.failure.reason == "revoked":
        return None
    try:
        return (run.artifact_folder(attempt.id) / name).read_text(encoding="utf-8") or None
    except OSError:
        return None


def write_rows(rows: Iterable[Row], file: Path) -> int:
    """Write rows in the format of the file's suffix; return their number."""
    if file.suffix not in FORMATS:
        raise UserError(f"{file}: unknown format. Name a file that ends in {' or '.join(FORMATS)}.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return write_jsonl(rows, file) if file.suffix == ".jsonl" else write_parquet(rows, file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}. Choose another file.") from error


def write_jsonl(rows: Iterable[Row], file: Path) -> int:
    """Write rows as JSON lines; return their number."""
    new, count = file.with_name(f".{file.name}.new"), 0
    with new.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    new.replace(file)
    return count


def write_parquet(rows: Iterable[Row], file: Path) -> int:
    """Write rows as Parquet; return their number."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise UserError("Parquet needs pyarrow. Run pip install 'evokernel[parquet]', or name a .jsonl file.") from error
    flat_rows = [
        {name: json.dumps(value, ensure_ascii=False) if name in JSON_COLUMNS else value for name, value in row.items()} for row in rows
    ]
    if not flat_rows:
        raise UserError("the run has no attempt to write")
    types = dict.fromkeys(("level", "round", "seed", "input_tokens", "output_tokens"), pa.int64())
    types |= dict.fromkeys(("latency_us", "baseline_us", "speedup", "reward", "cost_usd", "finished_at"), pa.float64())
    types |= dict.fromkeys(("compiled", "feasible", "is_recorded_reply"), pa.bool_())
    messages = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    types |= {name: messages for name, value in flat_rows[0].items() if isinstance(value, list)}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in flat_rows[0]])
    new = file.with_name(f".{file.name}.new")
    pq.write_table(pa.Table.from_pylist(flat_rows, schema=schema), new, compression="zstd")
    new.replace(file)
    return len(flat_rows)
