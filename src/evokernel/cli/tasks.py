"""`evokernel tasks`: what there is to write kernels for."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, json_option, pairs, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from evokernel.core.records import Task, Tensor
    from evokernel.experiments.task_lint import Look
    from evokernel.tasks.loader import TaskFile

MOST_RUN = 32  # a listing runs references it has not seen before only when they are few
WAYS = ("list", "show", "count", "audit")


class Ways(click.Group):
    """`evokernel tasks SPEC` lists; the others are asked for by name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in WAYS or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["list", *args])


@click.group(cls=Ways)
def command() -> None:
    """List tasks, show what a kernel for one must do, count them, or look for what is wrong with them.

    \b
    SPEC is a suite, suite/name, suite/category, a .py file, a folder, a checkout of KernelBench or MultiKernelBench,
    or a glob; several with commas. [starter]
    Examples:
      evokernel tasks
      evokernel tasks level1 --category convolution
      evokernel tasks show starter/softmax --backend cpp
      evokernel tasks audit ./KernelBench --protocol paper
    """


def chosen(least: int, default: str = "starter") -> Callable[[Any], Any]:
    """SPEC with the filters that go with it, as one argument `files`; at least so many words are given."""

    def decorate(function: Any) -> Any:
        from functools import wraps

        @wraps(function)
        def called(spec: tuple[str, ...], level: int | None, category: str, **more: Any) -> Any:
            if len(spec) < least:
                raise UserError("which task? for example: evokernel tasks show starter/softmax")
            return function(files=filtered(",".join(spec) or default, level, category), **more)

        called = click.option("--category", default="", metavar="NAME", help="Only this category, as reports group them.")(called)
        called = click.option("--level", type=int, metavar="N", help="Only this level.")(called)
        return click.argument("spec", nargs=-1, metavar="SPEC")(called)

    return decorate


def filtered(spec: str, level: int | None, category: str) -> list[TaskFile]:
    """The task files that are asked for; all suites for `all`."""
    from evokernel.core.plugins import did_you_mean
    from evokernel.tasks import loader

    found = loader.files(",".join(loader.suites()) if spec == "all" else spec)
    kept = [file for file in found if (level is None or file.level == level) and category in ("", file.category)]
    if not kept and category and category not in {file.category for file in found}:
        there = sorted({file.category for file in found})
        raise UserError(
            f"none of {len(found)} tasks is of category '{category}'{did_you_mean(category, there)}; there are: {', '.join(there)}"
        )
    if not kept:
        raise UserError(f"none of {len(found)} tasks is of level {level}; there are levels {', '.join(map(str, levels(found)))}")
    return kept


def levels(files: list[TaskFile]) -> list[int]:
    """Which there are."""
    return sorted({file.level for file in files})


@command.command("list")
@chosen(0)
@json_option
def list_tasks(files: list[TaskFile], as_json: bool) -> None:
    """List tasks, one line each; `evokernel tasks SPEC` does the same.

    \b
    Examples:
      evokernel tasks list attention
      evokernel tasks level1 --category convolution
    """
    from evokernel.tasks import loader

    rows = listing(files)
    if as_json:
        emit(rows)
        return
    header = ["task", "category", "level", "inputs", "outputs", "work"]
    tell(draw(header, [[str(row[name]) for name in header] for row in map(cells, rows)], [False, False, True]))
    first = rows[0]["task"] if rows[0]["task"].partition("/")[0] in loader.suites() else quote(rows[0]["path"])
    tell(f"\n{len(rows)} task{'s' * (len(rows) != 1)}; suites: {', '.join(loader.suites())}. More: evokernel tasks show {first}")
    if any(row["inputs"] is None and not row["error"] for row in rows):
        tell(
            "– where a reference has not been run yet, as lists of more than "
            f"{MOST_RUN} run none; `evokernel tasks audit --loading SPEC` runs them all, once."
        )


@command.command("show")
@chosen(1)
@click.option("--backend", default="pallas", metavar="NAME", help="Whose entry point it prints. [pallas]")
@json_option
def show(files: list[TaskFile], backend: str, as_json: bool) -> None:
    """Show what a kernel for a task must do: signature, sizes, numeric contract, work, entry point, reference.

    \b
    Examples:
      evokernel tasks show starter/softmax --backend cpp
      evokernel tasks show my_tasks/row_norm.py
    """
    from evokernel.tasks import loader

    shown = [description(loader.describe(file), backend) for file in files]
    emit(shown) if as_json else tell("\n\n".join(page(one) for one in shown))


@command.command("count")
@chosen(0, "all")
@json_option
def count(files: list[TaskFile], as_json: bool) -> None:
    """Count tasks by suite and category. [all suites]

    \b
    Examples:
      evokernel tasks count
      evokernel tasks count ./MultiKernelBench
    """
    suites = list(dict.fromkeys(suite_of(file) for file in files))
    rows = [
        {"suite": suite, "level": ", ".join(map(str, levels([f for f in files if suite_of(f) == suite]))), "category": name, "tasks": n}
        for suite in suites
        for name, n in sorted(Counter(file.category for file in files if suite_of(file) == suite).items())
    ]
    if as_json:
        emit(rows)
        return
    totals = [[suite, "", "all", str(sum(suite_of(file) == suite for file in files))] for suite in suites]
    lines = [[str(cell) for cell in row.values()] for row in rows]
    body = [line for total in totals for line in (*(one for one in lines if one[0] == total[0]), total)]
    tell(draw(["suite", "level", "category", "tasks"], body, [False, True, False, True]))
    tell(f"\n{len(files)} task{'s' * (len(files) != 1)} in {len(suites)} suite{'s' * (len(suites) != 1)}")


@command.command("audit")
@chosen(0)
@click.option("--protocol", type=click.Choice(["strict", "paper"]), default="strict", help="Whose tolerance is in force. [strict]")
@click.option("--workers", type=click.IntRange(1), default=2, metavar="N", help="Tasks at a time, a process each. [2]")
@click.option("--timeout", type=click.FloatRange(1), default=180, metavar="S", help="Seconds for one task. [180]")
@click.option("--loading", is_flag=True, help="Only whether each loads, gets a signature and a small size.")
@json_option
def audit(files: list[TaskFile], protocol: str, workers: int, timeout: float, loading: bool, as_json: bool) -> int:
    """Look for what is wrong with tasks: what passes without computing, what is never tried, what differs from run to run.

    \b
    vacuous     zeros, a constant, a function of the parameters alone or a copy of an input passes
    idle        an input or parameter can be left out and nobody notices
    untried     a parameter is one and the same number everywhere, as ones and zeros
    random      the reference draws random numbers; unsteady: it differs from run to run without
    non-finite  outputs hold NaN or infinities; too large: for this machine; fixed-size: only one size
    Examples:
      evokernel tasks audit mhc
      evokernel tasks audit my_tasks --protocol paper
      evokernel tasks audit ./KernelBench --loading

    Exit codes: 0 nothing found, 1 a task cannot be used or has a flaw under the protocol in force, 2 something to fix.
    """
    from evokernel.experiments.task_lint import survey

    looks: list[Look] = []
    for look in survey(files, audit=not loading, workers=workers, timeout_s=timeout):
        looks.append(look)
        said = "cannot be used" if look.error else ", ".join(dict.fromkeys(flaw.kind for flaw in look.wrong(protocol))) or "sound"
        tell(f"[{len(looks)}/{len(files)}] {look.id}: {said} ({look.seconds:.1f} s)", err=True)
    order = {file.id: n for n, file in enumerate(files)}
    looks.sort(key=lambda look: order[look.id])
    if as_json:
        emit([look.model_dump(mode="json", exclude={"task"}) | facts(look) for look in looks])
    else:
        tell_looks(looks, protocol, loading)
    return int(any(look.error or look.wrong(protocol) for look in looks))


def tell_looks(looks: list[Look], protocol: str, loading: bool) -> None:
    """What was found, worst first, and how many by suite and level."""
    for look in looks:
        if look.error:
            tell(f"{look.id}: cannot be used: {look.error}")
        for kind, said in grouped(look, protocol).items():
            tell(f"{look.id}: {kind}: {said}")
    keys = list(dict.fromkeys((suite_of(look), look.level) for look in looks))
    header = ["suite", "level", "tasks", "load", "small size", *([] if loading else ["sound", "vacuous"])]
    body = []
    for suite, level in keys:
        members = [look for look in looks if (suite_of(look), look.level) == (suite, level)]
        body.append([suite, str(level), *map(str, tally(members, protocol))][: len(header)])
    tell("\n" + draw(header, body, [False] + [True] * 6))
    if not loading:
        tell(f"\ntolerance in force: {protocol}; --json has both protocols, and every size")


def tally(looks: list[Look], protocol: str) -> tuple[int, int, int, int, int]:
    """Tasks, those that load, those with a small size, those without a flaw, those that something trivial passes."""
    loaded = [look for look in looks if look.task]
    sized = [look for look in loaded if look.task and "fixed-size" not in look.task.tags]
    sound = [look for look in loaded if not look.wrong(protocol)]
    vacuous = [look for look in loaded if any(flaw.kind == "vacuous" for flaw in look.wrong(protocol))]
    return len(looks), len(loaded), len(sized), len(sound), len(vacuous)


def grouped(look: Look, protocol: str) -> dict[str, str]:
    """Flaws of one kind in one line: what, and at which sizes."""
    found: dict[str, dict[str, list[str]]] = {}
    for flaw in look.wrong(protocol):
        found.setdefault(flaw.kind, {}).setdefault(flaw.what, []).append(flaw.size.replace("_", "-"))
    return {
        kind: "; ".join(what + (f" ({', '.join(filter(None, sizes))})" if any(sizes) else "") for what, sizes in whats.items())
        for kind, whats in found.items()
    }


def facts(look: Look) -> dict[str, Any]:
    """What else a program may want to know of a task."""
    task = look.task
    return {"sizes": task.sizes, "flops": task.work.flops, "bytes": task.work.bytes, "memory": task.work.peak_bytes} if task else {}


def suite_of(one: TaskFile | Look) -> str:
    """The first part of an id."""
    return one.id.partition("/")[0]


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
                "category": file.category,
                "family": file.family,
                "families": list(file.families),
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
    from evokernel.reports.formatting import UNKNOWN, bytes_size, first_line

    work = UNKNOWN if row["flops"] is None else f"{row['flops'] / 1e6:.3g} Mflop, {bytes_size(row['bytes'])}"
    inputs = row["error"] and f"cannot be used: {row['error']}"
    return {
        "task": row["task"],
        "category": row["category"],
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
    from evokernel.core.numeric_contract import numeric_contract
    from evokernel.core.plugins import make_plugin

    return {
        "task": task.id,
        "category": task.category,
        "family": task.family,
        "families": list(task.families),
        "level": task.level,
        "inputs": [tensor(one) for one in task.signature.inputs],
        "params": [tensor(one) for one in task.signature.params],
        "scalars": {one.name: one.value for one in task.signature.scalars},
        "outputs": [tensor(one) for one in task.signature.outputs],
        "sizes": {name: size for name, size in task.sizes.items() if name != "held_out"},
        "flops": task.work.flops,
        "bytes": task.work.bytes,
        "memory": task.work.peak_bytes,
        **numeric_contract(task)._asdict(),
        "tags": list(task.tags),
        "backend": backend,
        "entry": make_plugin("backend", backend).entry(task),
        "source": task.source,
    }


def page(one: dict[str, Any]) -> str:
    """The same for people."""
    from evokernel.reports.formatting import bytes_size, tags

    small = ", ".join(f"{name}={value}" for name, value in one["sizes"].get("small", {}).items())
    sums = f"sums of up to {one['terms']:.0f} terms in {one['accumulation']} or finer" if one["terms"] > 1 else "no sums"
    rows = [
        ("task", f"{one['task']} (category {one['category']}, level {one['level']}, {one['dtype']}; made of {', '.join(one['families'])})"),
        ("inputs", " ".join(one["inputs"]) or "none"),
        ("parameters", " ".join(one["params"]) or "none"),
        ("scalars", " ".join(f"{name}={value:g}" for name, value in one["scalars"].items()) or "none"),
        ("outputs", " ".join(one["outputs"])),
        ("sizes", "bench as above" + ("" if "fixed-size" in one["tags"] else f"; small: {small}; and a size that is not shown")),
        ("work", f"{one['flops'] / 1e6:.3g} Mflop, {bytes_size(one['bytes'])} moved at least"),
        ("tolerance", f"|got - expected| <= {one['atol']:g} * rms(expected) + {one['rtol']:g} * |expected|; integers exact"),
        ("numbers", f"{sums}{'; equal inputs must give equal bits' if one['deterministic'] else ''}"),
        *(("note", text) for text in tags(one["tags"])),
    ]
    return f"{pairs(rows)}\n\nentry point ({one['backend']}):\n\n{one['entry']}\n\nreference:\n\n{one['source'].rstrip()}"
