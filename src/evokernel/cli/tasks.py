"""`evokernel tasks`: what there is to write kernels for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, json_option, pairs, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.records import Task, Tensor
    from evokernel.tasks.loader import TaskFile

MOST_RUN = 32  # a listing runs references it has not seen before only when they are few


@click.command()
@click.argument("words", nargs=-1, metavar="[show] [SPEC]")
@click.option("--backend", default="pallas", metavar="NAME", help="Whose entry point 'show' prints. [pallas]")
@json_option
def command(words: tuple[str, ...], backend: str, as_json: bool) -> None:
    """List tasks, or show what a kernel for one must do.

    \b
    SPEC is a suite, suite/name, a .py file, a folder or a glob; several with commas. [starter]
    Examples:
      evokernel tasks
      evokernel tasks './KernelBench/level1/*.py'
      evokernel tasks show starter/softmax --backend cpp
    """
    from evokernel.tasks import loader

    asked, specs = (True, words[1:]) if words[:1] == ("show",) else (False, words)
    if asked and not specs:
        raise UserError("which task? for example: evokernel tasks show starter/softmax")
    spec = ",".join(specs) or "starter"
    if asked:
        shown = [description(task, backend) for task in loader.load(spec)]
        emit(shown) if as_json else tell("\n\n".join(page(one) for one in shown))
        return
    rows = listing(loader.files(spec))
    if as_json:
        emit(rows)
        return
    header = ["task", "family", "level", "inputs", "outputs", "work"]
    tell(draw(header, [[str(row[name]) for name in header] for row in map(cells, rows)], [False, False, True]))
    first = rows[0]["task"] if rows[0]["task"].partition("/")[0] in loader.suites() else rows[0]["path"]
    tell(f"\n{len(rows)} task{'s' * (len(rows) != 1)}; suites: {', '.join(loader.suites())}. More: evokernel tasks show {first}")


def listing(files: list[TaskFile]) -> list[dict[str, Any]]:
    """One row per file. Signatures of a long list come from the cache alone, so that listing stays quick."""
    from evokernel.tasks import cache, loader

    rows = []
    for file in files:
        task, error = None, None
        try:
            task = loader.describe(file) if len(files) <= MOST_RUN else cache.get(loader.read(file.path))
        except UserError as found:
            if len(files) == 1:
                raise
            error = str(found)
        signature = task.signature if task else None
        rows.append(
            {
                "task": file.id,
                "family": file.family,
                "level": file.level,
                "path": str(file.path),
                "inputs": [tensor(one) for one in (*signature.inputs, *signature.params)] if signature else None,
                "outputs": [tensor(one) for one in signature.outputs] if signature else None,
                "flops": task.work.flops if task else None,
                "bytes": task.work.bytes if task else None,
                "error": error,
            }
        )
    return rows


def cells(row: dict[str, Any]) -> dict[str, str]:
    """A row as people read it."""
    from evokernel.reports.words import UNKNOWN, bytes_size, first_line

    work = UNKNOWN if row["flops"] is None else f"{row['flops'] / 1e6:.3g} Mflop, {bytes_size(row['bytes'])}"
    inputs = row["error"] and f"cannot be used: {row['error']}"
    return {
        "task": row["task"],
        "family": row["family"],
        "level": str(row["level"]),
        "inputs": first_line(inputs or " ".join(row["inputs"] or [UNKNOWN]), 60),
        "outputs": " ".join(row["outputs"] or [UNKNOWN]),
        "work": work,
    }


def tensor(of: Tensor) -> str:
    """`x:float32[64,32]`."""
    return f"{of.name}:{of.dtype}[{','.join(map(str, of.shape))}]"


def description(task: Task, backend: str) -> dict[str, Any]:
    """What `tasks show` tells about one task. The held-out size stays held out."""
    from evokernel.core.plugins import make

    return {
        "task": task.id,
        "family": task.family,
        "level": task.level,
        "inputs": [tensor(one) for one in task.signature.inputs],
        "params": [tensor(one) for one in task.signature.params],
        "scalars": {one.name: one.value for one in task.signature.scalars},
        "outputs": [tensor(one) for one in task.signature.outputs],
        "sizes": {name: size for name, size in task.sizes.items() if name != "held_out"},
        "flops": task.work.flops,
        "bytes": task.work.bytes,
        "atol": task.atol,
        "rtol": task.rtol,
        "tags": list(task.tags),
        "backend": backend,
        "entry": make("backend", backend).entry(task),
        "source": task.source,
    }


def page(one: dict[str, Any]) -> str:
    """The same for people."""
    from evokernel.reports.words import bytes_size, tags

    small = ", ".join(f"{name}={value}" for name, value in one["sizes"].get("small", {}).items())
    rows = [
        ("task", f"{one['task']} (family {one['family']}, level {one['level']})"),
        ("inputs", " ".join(one["inputs"]) or "none"),
        ("parameters", " ".join(one["params"]) or "none"),
        ("scalars", " ".join(f"{name}={value:g}" for name, value in one["scalars"].items()) or "none"),
        ("outputs", " ".join(one["outputs"])),
        ("sizes", "bench as above" + ("" if "fixed-size" in one["tags"] else f"; small: {small}; and a size that is not shown")),
        ("work", f"{one['flops'] / 1e6:.3g} Mflop, {bytes_size(one['bytes'])} moved at least"),
        ("tolerance", f"|got - expected| <= {one['atol']:g} * rms(expected) + {one['rtol']:g} * |expected|; integers exact"),
        *(("note", text) for text in tags(one["tags"])),
    ]
    return f"{pairs(rows)}\n\nentry point ({one['backend']}):\n\n{one['entry']}\n\nreference:\n\n{one['source'].rstrip()}"
