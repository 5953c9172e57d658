"""`evokernel experiment`: the paper's tables and figures, or one of yours."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, folded, json_option, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.final_results import FinalResult
    from evokernel.core.records import Attempt
    from evokernel.core.run import Run
    from evokernel.experiments.cost_estimate import Row
    from evokernel.experiments.runner import Operators
    from evokernel.experiments.spec import Plan

EVERY_S = 10.0


@click.command()
@click.argument("name", required=False)
@click.option("--list", "is_list", is_flag=True, help="The experiments that come with the package.")
@click.option("--dry-run", is_flag=True, help="Only say what it would take: attempts, time, money.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Instead of as many as the file says.")
@click.option("--operators", type=click.IntRange(1), metavar="N", help="So many of each group, spread over the whole. [all]")
@click.option("--arms", metavar="NAMES", help="Only these, with commas between them.")
@click.option(
    "--protocol",
    type=click.Choice(["paper", "strict"]),
    help="What runs go by; bests are judged again by the other. [as the file says]",
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Of all runs, of the file, or arms.NAME.key, packs.NAME.key.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Gone on with where it has runs. [runs/experiments/NAME]")
@json_option
def command(
    name: str | None,
    is_list: bool,
    dry_run: bool,
    seeds: int | None,
    operators: int | None,
    arms: str | None,
    protocol: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> int:
    """Run one of the paper's experiments on any backend and generator. NAME is one of --list, or a file of yours (.toml).

    \b
    Examples:
      evokernel experiment --list
      evokernel experiment table2 --dry-run
      evokernel experiment figure5 --set backend=cpp --operators 20 --seeds 2 --set budget=10
      evokernel experiment table2 --set generator=llm --set generator.model=gpt-5 --set arms.agent.generator.command="codex exec -"

    Each arm and seed is a run folder; the same command goes on where it was stopped.
    """
    from evokernel.experiments import cost_estimate, runner, spec, spec_validation

    if is_list or not name:
        return tell_list(as_json)
    read = spec.read(name, [*sets, *([f"seeds={seeds}"] if seeds else [])])
    plan, left_out = chosen(spec.by(read, protocol) if protocol else read, arms)
    spec_validation.check(plan)
    folder = out or Path("runs") / "experiments" / plan.name
    tasks = runner.operators(plan, operators)
    rows = cost_estimate.expected(plan, tasks, [folder, Path("runs")])
    if dry_run:
        return tell_expected(plan, rows, as_json)
    announce(plan, rows, as_json)
    if operators:
        left_out |= not_sampled(tasks, runner.operators(plan), operators)
    options = {"--seeds": seeds, "--operators": operators, "--arms": arms, "--protocol": protocol}
    return conduct(plan, tasks, folder, left_out, typed(name, options, sets), as_json)


def not_sampled(tasks: Operators, whole: Operators, operators: int) -> dict[str, str]:
    """What `--operators` leaves out of groups that are larger."""
    sizes = {name: (len(some), len(whole[name])) for name, some in tasks.items()}
    return {
        f"{name}: all but {some} of {every} operators": f"--operators {operators}" for name, (some, every) in sizes.items() if some < every
    }


def typed(name: str, options: dict[str, Any], sets: tuple[str, ...]) -> str:
    """The command that does it again, wherever its folder goes."""
    given = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return shlex.join(["evokernel", "experiment", name, *given, *(word for text in sets for word in ("--set", text))])


def chosen(plan: Plan, names: str | None) -> tuple[Plan, dict[str, str]]:
    """With some of its arms, and the packs these need; those that lack a setting are left out, with the reason."""
    from evokernel.core.plugins import did_you_mean

    known = {arm.name: arm for arm in plan.arms}
    wanted = [name.strip() for name in names.split(",")] if names else list(known)
    for name in wanted:
        if name not in known:
            raise UserError(f"experiment '{plan.name}' has no arm '{name}'{did_you_mean(name, list(known))}; it has: {', '.join(known)}")
    for name in wanted:
        if known[name].lacks():
            tell(f"note: arm '{name}' is left out: --set arms.{name}.{known[name].needs}=… is not given", err=True)
    arms = tuple(known[name] for name in wanted if not known[name].lacks())
    if not arms:
        raise UserError(f"no arm of experiment '{plan.name}' is left; give what they need")
    packs = tuple(pack for pack in plan.packs if any(arm.pack == pack.name for arm in arms))
    left = {arm.name for arm in arms}
    against = tuple(pair for pair in plan.against if set(pair) <= left)
    reasons = {
        f"arm {name}": f"{arm.needs} is not set" if arm.lacks() else "not asked for" for name, arm in known.items() if name not in left
    }
    return plan.model_copy(update={"arms": arms, "packs": packs, "against": against}), reasons


def tell_list(as_json: bool) -> int:
    from evokernel.experiments import spec

    found = [spec.read(name) for name in spec.shipped()]
    if as_json:
        emit([{"name": plan.name, "title": plan.title, "about": plan.about, "arms": [arm.name for arm in plan.arms]} for plan in found])
        return 0
    tell(draw(("experiment", "arms", "what it is"), [(plan.name, ", ".join(arm.name for arm in plan.arms), plan.title) for plan in found]))
    return 0


def tell_expected(plan: Plan, rows: list[Row], as_json: bool) -> int:
    """Attempts, time and money, and where they are known from."""
    total = sum(row.attempts for row in rows)
    seconds = [row.seconds for row in rows]
    costs = [row.cost_usd for row in rows]
    time_s = None if None in seconds else sum(value or 0.0 for value in seconds)
    cost = None if None in costs else sum(value or 0.0 for value in costs)
    if as_json:
        listed = [
            {
                "name": row.name,
                "what": row.what,
                "operators": row.operators,
                "attempts": row.attempts,
                "seconds": row.seconds,
                "cost_usd": row.cost_usd,
            }
            for row in rows
        ]
        emit({"experiment": plan.name, "seeds": plan.seeds, "rows": listed, "attempts": total, "seconds": time_s, "cost_usd": cost})
        return 0
    tell(folded(f"{plan.title}. {plan.about}"))
    table = [
        (
            row.name,
            row.what,
            str(row.operators),
            str(row.attempts),
            " ".join(filter(None, row.kind)),
            known(row.seconds),
            money(row.cost_usd),
        )
        for row in rows
    ]
    header = ("name", "what", "operators", "attempts", "backend and generator", "time", "cost")
    tell(f"\n{draw(header, table, right=(False, False, True, True, False, True, True))}\n")
    again = "" if plan.again is None else ", then bests are judged again"
    tell(folded(f"{total} attempts at most over {plan.seeds} seeds{again}. Expected: {known(time_s)}, {money(cost)}."))
    if time_s is None or cost is None:
        tell(folded("Not known: no run below ./runs has the same backend and generator. A small one tells: --operators 2 --seeds 1."))
    else:
        tell(folded("Time and money are estimates, by what attempts took in earlier runs below ./runs."))
    return 0


def known(seconds: float | None) -> str:
    from evokernel.reports import formatting

    return "not known" if seconds is None else f"about {formatting.duration(seconds)}"


def money(cost: float | None) -> str:
    return "not known" if cost is None else "no cost" if not cost else f"about ${cost:.2f}"


def announce(plan: Plan, rows: list[Row], as_json: bool) -> None:
    attempts = sum(row.attempts for row in rows)
    tell(folded(f"{plan.title}: {len(plan.arms)} arms × {plan.seeds} seeds, {attempts} attempts at most"), err=as_json)


class Telling:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self.told, self.begun = 0.0, time.monotonic()
        self.counts: Counter[str] = Counter()

    def __call__(self, run: Run, made: Attempt | FinalResult) -> None:
        from evokernel.core.final_results import FinalResult
        from evokernel.reports import formatting

        self.counts["judged again" if isinstance(made, FinalResult) else "feasible" if made.outcome.feasible else "failed"] += 1
        if time.monotonic() - self.told > EVERY_S:
            self.told = time.monotonic()
            counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
            tell(f"{formatting.duration(self.told - self.begun)}: {run.folder.name}: {counts}", err=True)


def conduct(plan: Plan, asked: Any, folder: Path, left_out: dict[str, str], typed: str, as_json: bool) -> int:
    """Runs it, writes what it found, shows the tables."""
    from evokernel.cli.report import show
    from evokernel.experiments import report_writer, result_tables, runner
    from evokernel.experiments.results import Results
    from evokernel.experiments.summary import summary

    tasks, reasons = runner.sifted(asked)
    for operator, why in reasons.items():
        tell(f"note: {operator} is left out: {why}", err=True)
    found = runner.carry_out(plan, tasks, folder, Telling())
    results = Results(plan, found, tasks, folder, runner.vacuous(tasks), {**left_out, **reasons}, typed)
    tables = report_writer.write(results)
    if as_json:
        emit(result_tables.figures(results) | {"summary": summary(results), "folder": str(folder)})
        return 0
    for table in tables:
        tell(f"\n{show(table)}")
    tell("")
    for line in summary(results):
        tell(folded(line))
    tell(folded(result_tables.protocol(results)))
    tell(f"\nwritten to {folder / 'experiment.html'}, experiment.md and experiment.json")
    return 0
