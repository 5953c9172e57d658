"""`evokernel selftest`: does this installation judge rightly?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, json_option, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.experiments.selftest import Finding, Specimen

WORKERS = 2


@click.command()
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Only this one; may be given again. [all that work here]")
@click.option("--class", "kinds", multiple=True, metavar="NAME", help="Only candidates of this class; may be given again. [all]")
@click.option("--candidates", "home", type=click.Path(path_type=Path), metavar="FOLDER", help="Your own candidates. [the shipped ones]")
@click.option("--workers", type=click.IntRange(min=1), default=WORKERS, show_default=True, help="Verifications at a time.")
@json_option
def command(backends: tuple[str, ...], kinds: tuple[str, ...], home: Path | None, workers: int, as_json: bool) -> int:
    """Judge the shipped cheats and honest oddities, and say whether each got the verdict it must get.

    \b
    Examples:
      evokernel selftest
      evokernel selftest --backend cpp --class timing
      evokernel selftest --backend mine --candidates my_candidates --json

    Exit codes: 0 all judged rightly, 1 some wrongly, 2 something to fix.
    """
    from evokernel.app.factory import make_part
    from evokernel.core.config import resolve_config
    from evokernel.experiments.selftest import judged

    chosen = specimens(working(backends), kinds, home)
    executor = make_part(resolve_config(None, workers=workers), "executor")
    findings: list[Finding] = []
    try:
        for finding in judged(chosen, executor):
            findings.append(finding)
            tell(line(finding, len(findings), len(chosen)), err=True)
    finally:
        executor.close()
    place = {one: index for index, one in enumerate((one.backend, one.path) for one in chosen)}
    findings.sort(key=lambda one: place[one.specimen.backend, one.specimen.path])
    emit(record(findings)) if as_json else tell(page(findings))
    return 0 if all(finding.is_right for finding in findings) else 1


def working(named: Sequence[str]) -> list[str]:
    """The backends to try: those named, which must work here, or all that do."""
    from evokernel.core.plugins import make_plugin, plugin_names
    from evokernel.core.protocols import PartialBackend

    found = []
    for name in dict.fromkeys(named or plugin_names("backend")):
        try:
            backend = make_plugin("backend", name)
            missing = backend.missing() or (backend.limitations() if isinstance(backend, PartialBackend) else None)
        except UserError as error:
            if named:
                raise
            missing = str(error)
        if missing and named:
            raise UserError(f"backend '{name}' cannot work here: {missing}")
        if missing:
            tell(f"note: backend '{name}' is left out: {missing}", err=True)
        else:
            found.append(name)
    if not found:
        raise UserError("no backend works here; 'evokernel doctor' says what each lacks")
    return found


def specimens(backends: Sequence[str], kinds: Sequence[str], home: Path | None) -> list[Specimen]:
    """The candidates to judge; never none."""
    from evokernel.core.plugins import did_you_mean
    from evokernel.experiments.selftest import CLASSES, collect, shipped

    for kind in kinds:
        if kind not in CLASSES:
            raise UserError(f"no class '{kind}'{did_you_mean(kind, list(CLASSES))}; there are: {', '.join(CLASSES)}")
    if home is not None and not home.is_dir():
        raise UserError(f"no folder '{home}'; name one that holds a folder per class, such as {home}/timing")
    folders = {backend: home or shipped(backend) for backend in backends}
    found = [one for backend, folder in folders.items() if folder.is_dir() for one in collect(backend, folder)]
    if not found:
        raise UserError(
            f"no candidates of {' or '.join(backends)} in {', '.join(str(folder) for folder in dict.fromkeys(folders.values()))}"
        )
    found = [one for one in found if not kinds or one.kind in kinds]
    if not found:
        raise UserError(f"there are no candidates in {' or '.join(kinds)}")
    return found


def line(finding: Finding, done: int, total: int) -> str:
    """One candidate as it comes in."""
    mark = "right" if finding.is_right else "WRONG"
    return f"[{done:>{len(str(total))}}/{total}] {mark}  {finding.specimen.backend} {finding.specimen.name}: {finding.actual}"


def page(findings: Sequence[Finding]) -> str:
    """The table, then everything that was judged wrongly, then what this machine had to do without."""
    lines = [draw(["backend", "class", "candidates", "judged rightly"], rows(findings), [False, False, True, True])]
    wrong = [finding for finding in findings if not finding.is_right]
    for finding in wrong:
        one = finding.specimen
        lines.append(f"\n{one.backend} {one.name} ({one.task})\n  must be: {one.expected}\n  was:     {finding.actual}")
        if finding.outcome and finding.outcome.failure and finding.outcome.failure.detail:
            lines += [f"    {text}" for text in finding.outcome.failure.detail.splitlines()[:4]]
    lines += [f"\nnote: {text}" for text in without(findings)]
    verdict = "all judged rightly" if not wrong else f"{len(wrong)} of {len(findings)} judged wrongly"
    return "\n".join([*lines, f"\n{verdict}"])


def rows(findings: Sequence[Finding]) -> list[list[str]]:
    """Counts per backend and class, in the order in which they were chosen."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.specimen.backend, finding.specimen.kind), []).append(finding)
    return [[*group, str(len(found)), str(sum(one.is_right for one in found))] for group, found in groups.items()]


def without(findings: Sequence[Finding]) -> list[str]:
    """What verdicts had to do without here, each once."""
    return list(dict.fromkeys(text for finding in findings if finding.outcome for text in finding.outcome.skipped_checks))


def record(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "right": all(finding.is_right for finding in findings),
        "without": without(findings),
        "candidates": [
            {
                "backend": finding.specimen.backend,
                "class": finding.specimen.kind,
                "name": finding.specimen.path.stem,
                "task": finding.specimen.task,
                "expected": {"passes": not finding.specimen.gates, "gates": finding.specimen.gates, "reasons": finding.specimen.reasons},
                "right": finding.is_right,
                "trouble": finding.trouble,
                "outcome": finding.outcome.model_dump(mode="json") if finding.outcome else None,
            }
            for finding in findings
        ],
    }
