"""`evokernel extract`: tasks out of a whole model, and kernels back into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, folded, json_option, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.run import Run
    from evokernel.experiments.kernel_substitution import PutBack, Told
    from evokernel.experiments.task_extraction import Extracted
    from evokernel.reference.extract.profiles import Operator, Profile

CLOCKS = {"cpu": "processor time of one thread", "wall": "wall time with a fixed number of threads"}


@click.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.py")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Where task files go. [operators/<name of MODEL>]")
@click.option(
    "--min-share", "least", type=click.FloatRange(0, 1), default=0.02, show_default=True, help="Of the model's time, to be a task."
)
@click.option("--top", "most", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="At most so many tasks.")
@click.option("--with", "run", type=click.Path(path_type=Path), metavar="RUN", help="Put this run's best kernels back and check the model.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="For the model's weights and inputs.")
@json_option
def command(model: Path, out: Path | None, least: float, most: int, run: Path | None, seed: int, as_json: bool) -> int:
    """Rank the operators of a whole model by time, and make a task file of each that is worth the effort.

    MODEL.py holds Model, get_inputs and get_init_inputs, as a task file does. With --with nothing is written: the best
    kernels of a run on these tasks take the place of the operators, and the model's outputs are checked end to end.

    \b
    Examples:
      evokernel extract gpt_block.py
      evokernel run --tasks operators/gpt_block --backend cpp --out runs/gpt
      evokernel extract gpt_block.py --with runs/gpt

    Exit codes: 0 done, 1 the model with kernels is not right, or nothing could be extracted or put back, 2 something to fix.
    """
    from evokernel.core.run import Run
    from evokernel.tasks import cache

    opened = Run.open(run) if run else None
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(cache.NEEDS_TORCH) from error
    if opened:
        return check(model, opened, seed, as_json)
    return make(model, out or Path("operators") / model.stem, least, most, seed, as_json)


def say(text: str) -> None:
    """Progress, where it does not mix with results."""
    tell(f"{text} …", err=True)


def profiled(model: Path, seed: int, threads: int) -> tuple[str, Any, Profile]:
    """The model's text, the model, and where its time goes."""
    from evokernel.reference.extract.profiles import profile
    from evokernel.reference.module import Reference
    from evokernel.tasks.loader import read

    if model.suffix != ".py":
        raise UserError(f"{model} is no Python file; name one that defines Model, get_inputs and get_init_inputs")
    source = read(model)
    reference = Reference(source, str(model))
    found = profile(reference, seed, threads, say)
    if not found.operators:
        raise UserError(f"{model}: forward calls no operator of torch on tensors, so there is nothing to extract")
    return source, reference, found


def make(model: Path, folder: Path, least: float, most: int, seed: int, as_json: bool) -> int:
    """Profiles, writes tasks, shows the ranking."""
    from evokernel.experiments.task_extraction import extract, new_folder, worth

    _, _, profile = profiled(model, seed, 1)
    operators = worth(profile, least, most)
    if not operators:
        first = profile.operators[0]
        raise UserError(
            f"no operator takes {least:.0%} of the time; {first.call.name} takes most, {first.share:.1%}: give a lower --min-share"
        )
    new_folder(folder)
    found = list(extract(operators, model.stem, folder, say))
    made = [one for one in found if one.path]
    if as_json:
        emit({**summary(model, profile), "folder": str(folder), "operators": [record(one) for one in found]})
    else:
        tell(table(found))
        tell(f"\n{remark(profile, operators)}")
        if made:
            tell(f"{len(made)} task{'s' * (len(made) != 1)} in {folder}. Next: evokernel run --tasks {folder}")
        for one in found:
            if not one.path:
                tell(folded(f"no task for {one.operator.call.name}: {one.reason}"))
    return 0 if made else 1


def check(model: Path, run: Run, seed: int, as_json: bool) -> int:
    """Puts kernels back and shows what became of the model."""
    from evokernel.experiments.kernel_substitution import put_back

    threads = int(str(run.config.plugin_settings("backend").get("threads") or 1))
    source, reference, profile = profiled(model, seed, threads)
    found = put_back(reference, source, profile, run, seed, say)
    if as_json:
        emit({**summary(model, profile), **verdict(found)})
    else:
        tell(page(profile, found))
    return 0 if found.right and found.replaced else 1


def remark(profile: Profile, operators: list[Operator]) -> str:
    """What the figures are, and what they leave out."""
    from evokernel.reports.formatting import latency

    others = sum(operator.share for operator in profile.operators) - sum(operator.share for operator in operators)
    return (
        f"The model takes {latency(profile.seconds * 1e6)} ({CLOCKS[profile.clock]}, the middle of {profile.runs} "
        f"run{'s' * (profile.runs != 1)}); other operators {others:.1%}, views, copies and Python {profile.rest_s / profile.seconds:.1%}. "
        "Bound: how much faster the model would be if the operator took no time."
    )


def table(found: list[Extracted]) -> str:
    """The ranking."""
    from evokernel.reports.formatting import latency, ratio

    rows = [
        [
            one.operator.call.name.removeprefix("torch.").replace("nn.functional.", "F."),
            str(one.operator.calls),
            latency(one.operator.seconds * 1e6),
            f"{one.operator.share:.1%}",
            ratio(one.operator.bound),
            one.path.name if one.path else "–",
            " ".join(one.operator.shapes),
        ]
        for one in found
    ]
    header = ["operator", "calls", "time", "share", "bound", "task", "tensors"]
    return draw(header, rows, [False, True, True, True, True])


def page(profile: Profile, found: PutBack) -> str:
    """What became of every task, and of the model."""
    from evokernel.reports.formatting import latency, ratio

    rows = [[one.task, *cells(one)] for one in found.told]
    lines = [draw(["task", "calls", "torch", "kernel", "worst error", "what became of it"], rows, [False, True, True, True, True]), ""]
    for one in found.checked:
        said = "right" if one.right else one.detail
        lines.append(f"seed {one.seed}: {said}; the largest error is {one.worst:.3g} of what is allowed")
    if found.seconds is not None:
        gain = f"{ratio(profile.seconds / found.seconds)} as fast" if found.seconds > 0 else "too little to tell"
        lines.append(
            f"estimate from measured parts: {latency(found.seconds * 1e6)} with kernels, {gain}; without {latency(profile.seconds * 1e6)}"
        )
    else:
        lines.append(f"no estimate of the model's time: {found.why}")
    ending = "the model with kernels is right" if found.right else "the model with kernels is not right"
    return "\n".join([*lines, "", ending if found.replaced or (found.checked and not found.right) else "nothing was put back"])


def cells(one: Told) -> list[str]:
    """One task's figures in words."""
    from evokernel.reports.formatting import UNKNOWN, latency

    operator = one.operator
    became = one.reason or f"{one.attempt} stands in" + (f"; {one.left} calls left to torch" if one.left else "")
    return [
        str(one.replaced) if operator else UNKNOWN,
        latency(operator.seconds / operator.calls * 1e6) if operator else UNKNOWN,
        latency(one.kernel_s * 1e6) if one.kernel_s is not None else UNKNOWN,
        f"{one.worst:.2g} rms" if one.worst is not None else UNKNOWN,
        " ".join(became.split()),
    ]


def summary(model: Path, profile: Profile) -> dict[str, Any]:
    """The model's figures for programs."""
    return {
        "model": str(model),
        "seconds": profile.seconds,
        "rest_seconds": profile.rest_s,
        "clock": profile.clock,
        "threads": profile.threads,
        "runs": profile.runs,
    }


def record(one: Extracted) -> dict[str, Any]:
    """One operator for programs."""
    operator = one.operator
    return {
        "function": operator.call.name,
        "call": operator.call.key,
        "tensors": [{"tensor": shape, "role": role} for shape, role in zip(operator.shapes, operator.roles)],
        "calls": operator.calls,
        "seconds": operator.seconds,
        "share": operator.share,
        "bound": operator.bound if operator.share < 1 else None,
        "task": str(one.path) if one.path else None,
        "reason": one.reason or None,
    }


def verdict(found: PutBack) -> dict[str, Any]:
    """What became of the model, for programs; what is infinite is no number there."""
    return {
        "right": found.right,
        "replaced": found.replaced,
        "estimated_seconds": found.seconds,
        "why_no_estimate": found.why or None,
        "seeds": [{**one._asdict(), "worst": finite(one.worst)} for one in found.checked],
        "tasks": [
            {**one._asdict(), "operator": one.operator.call.key if one.operator else None, "worst": finite(one.worst)} for one in found.told
        ],
    }


def finite(value: float | None) -> float | None:
    """A number JSON can hold."""
    return value if value is not None and value < float("inf") else None
