"""`evokernel selftest`: tests the verifier of this installation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.app.selftest import SelftestResult

DEFAULT_WORKERS = 2


@click.command(epilog=TERMS_EPILOG)
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Test only this backend; may be repeated. [all that work here]")
@click.option(
    "--category", "categories", multiple=True, metavar="NAME", help="Verify only candidates of this category; may be repeated. [all]"
)
@click.option(
    "--candidates", "folder", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder with your own candidates. [the shipped ones]"
)
@click.option("--workers", type=click.IntRange(min=1), default=DEFAULT_WORKERS, show_default=True, help="Number of parallel verifications.")
@json_option
def command(backends: tuple[str, ...], categories: tuple[str, ...], folder: Path | None, workers: int, as_json: bool) -> int:
    """Verify the shipped cheating and honest candidates, and check that each gets its expected outcome.

    \b
    Examples:
      evokernel selftest
      evokernel selftest --backend cpp --category timing
      evokernel selftest --backend mine --candidates my_candidates --json

    Exit codes: 0 all outcomes as expected, 1 some are not, 2 error to fix.
    """
    from evokernel.app.factory import make_part
    from evokernel.app.selftest import collect_cases, run_cases, select_backends
    from evokernel.core.config import resolve_config

    names, skipped = select_backends(backends)
    for name, reason in skipped.items():
        print_text(f"note: backend '{name}' is skipped: {reason}", err=True)
    cases = collect_cases(names, categories, folder)
    executor = make_part(resolve_config(None, workers=workers), "executor")
    results: list[SelftestResult] = []
    try:
        for result in run_cases(cases, executor):
            results.append(result)
            print_text(format_result(result, len(results), len(cases)), err=True)
    finally:
        executor.close()
    order = {one: index for index, one in enumerate((one.backend, one.path) for one in cases)}
    results.sort(key=lambda one: order[one.case.backend, one.case.path])
    print_json(results_record(results)) if as_json else print_text(format_results(results))
    return 0 if all(result.is_as_expected for result in results) else 1


def format_result(result: SelftestResult, finished: int, total: int) -> str:
    """The progress line of one candidate."""
    mark = "expected" if result.is_as_expected else "WRONG   "
    return f"[{finished:>{len(str(total))}}/{total}] {mark}  {result.case.backend} {result.case.name}: {result.actual}"


def format_results(results: Sequence[SelftestResult]) -> str:
    """The table, then every wrong outcome, then the checks that this machine skipped."""
    lines = [format_table(["backend", "category", "candidates", "as expected"], count_rows(results), [False, False, True, True])]
    failures = [result for result in results if not result.is_as_expected]
    for result in failures:
        case = result.case
        lines.append(f"\n{case.backend} {case.name} ({case.task})\n  expected: {case.expectation}\n  actual:   {result.actual}")
        if result.outcome and result.outcome.failure and result.outcome.failure.detail:
            lines += [f"    {text}" for text in result.outcome.failure.detail.splitlines()[:4]]
    lines += [f"\nnot checked here: {text}" for text in skipped_checks(results)]
    conclusion = (
        "All outcomes are as expected." if not failures else f"{len(failures)} of {format_count(len(results), 'outcome')} not as expected."
    )
    return "\n".join([*lines, f"\n{conclusion}"])


def count_rows(results: Sequence[SelftestResult]) -> list[list[str]]:
    """Counts per backend and category, in the order of selection."""
    groups: dict[tuple[str, str], list[SelftestResult]] = {}
    for result in results:
        groups.setdefault((result.case.backend, result.case.category), []).append(result)
    return [[*group, str(len(members)), str(sum(one.is_as_expected for one in members))] for group, members in groups.items()]


def skipped_checks(results: Sequence[SelftestResult]) -> list[str]:
    """The checks that the verifier skipped on this machine, each once."""
    return list(dict.fromkeys(text for result in results if result.outcome for text in result.outcome.skipped_checks))


def results_record(results: Sequence[SelftestResult]) -> dict[str, Any]:
    """All results as JSON."""
    return {
        "all_as_expected": all(result.is_as_expected for result in results),
        "skipped_checks": skipped_checks(results),
        "candidates": [
            {
                "backend": result.case.backend,
                "category": result.case.category,
                "name": result.case.path.stem,
                "task": result.case.task,
                "expected": {"passes": not result.case.gates, "gates": result.case.gates, "reasons": result.case.reasons},
                "as_expected": result.is_as_expected,
                "error": result.error,
                "outcome": result.outcome.model_dump(mode="json") if result.outcome else None,
            }
            for result in results
        ],
    }
