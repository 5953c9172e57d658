"""Tables of the results: scores of both criteria side by side, and the solutions on which they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evokernel.app.kernelbench.results import THRESHOLDS, Score, SolutionResult, criterion_score, strict_score
from evokernel.app.kernelbench.solution_files import UnmappedSolution
from evokernel.core.labels import format_count
from evokernel.reports.formatting import UNKNOWN, first_line, format_percent, format_ratio

STRICT, CURRENT, LOOSE = "EvoKernel, strict", "KernelBench, current rule (1e-4)", "KernelBench, versions 0 and 0.1 (1e-2)"
CLAIM = (
    "KernelBench's figures come from a process in which the solution's own code runs, as KernelBench measures them: "
    "they are shown for comparison, and nothing is rewarded for them."
)


def score_rows(results: Sequence[SolutionResult]) -> list[list[str]]:
    """One row per criterion: decided, passed, and fast_p."""
    scores = [(STRICT, strict_score(results)), (CURRENT, criterion_score(results)), (LOOSE, criterion_score(results, is_loose=True))]
    return [[label, *format_score(score)] for label, score in scores]


def format_score(score: Score) -> list[str]:
    """Decided, passed and every fast_p; a dash for what was not measured."""
    return [str(score.decided), str(score.passed), *(format_percent(score.fast[f"{p:g}"]) for p in THRESHOLDS)]


SCORE_HEADER = ["criterion", "decided", "passed", *(f"fast_{p:g}" for p in THRESHOLDS)]
SOLUTION_HEADER = ["solution", "problem", "kind", "strict", "speed", "KernelBench", "speed", "PyTorch operators"]


def solution_row(result: SolutionResult) -> list[str]:
    """One solution with both verdicts."""
    strict = result.strict.verdict if result.strict.verdict != "failed" else f"failed: {result.strict.reason}"
    names = result.operators
    return [
        result.solution,
        result.problem,
        result.kind,
        strict,
        format_ratio(result.strict.speedup),
        result.criterion.verdict,
        format_ratio(result.criterion.speedup),
        UNKNOWN if names is None else ", ".join(names) or "none",
    ]


def write_report(
    results: Sequence[SolutionResult], unmapped: Sequence[UnmappedSolution], notes: Sequence[str], versions: Mapping[str, str]
) -> str:
    """The report in Markdown."""
    parts = ["# KernelBench solutions", "", f"{format_count(len(results), 'solution')}. {CLAIM}", "", *(f"- {note}" for note in notes), ""]
    parts += ["## Scores", "", *markdown_table(SCORE_HEADER, score_rows(results)), ""]
    parts += ["fast_p: share of the decided solutions that are correct and more than p times as fast as PyTorch eager.", ""]
    parts += disagreement("Only KernelBench's criterion passes", [one for one in results if one.passes_only_criterion])
    parts += disagreement("Only the strict protocol passes", [one for one in results if one.passes_only_strict])
    undecided = [one for one in results if "not run" in (one.strict.verdict, one.criterion.verdict)]
    if undecided:
        parts += ["## Not run", "", *markdown_table(["solution", "strict", "KernelBench"], [undecided_row(one) for one in undecided]), ""]
    if unmapped:
        parts += ["## Without a problem", "", *markdown_table(["file", "what to do"], [[one.name, one.fix] for one in unmapped]), ""]
    parts += ["## Solutions", "", *markdown_table(SOLUTION_HEADER, [solution_row(one) for one in results]), ""]
    parts += ["## Versions", "", *markdown_table(["part", "version"], [[name, text] for name, text in versions.items()]), ""]
    return "\n".join(parts)


def disagreement(title: str, results: Sequence[SolutionResult]) -> list[str]:
    """A section with the solutions that one criterion passes and the other fails, with the reason of the one that fails."""
    if not results:
        return [f"## {title}", "", "None.", ""]
    rows = []
    for result in results:
        failing = result.strict if result.strict.verdict == "failed" else result.criterion
        reason = f"{result.strict.gate}: {result.strict.reason}" if failing is result.strict else "mismatch or error"
        speed = result.criterion.speedup if failing is result.strict else result.strict.speedup
        rows.append([result.solution, result.problem, reason, first_line(failing.detail, 160), format_ratio(speed)])
    return [f"## {title}", "", *markdown_table(["solution", "problem", "reason", "detail", "claimed or measured speed"], rows), ""]


def undecided_row(result: SolutionResult) -> list[str]:
    """Why a solution was not evaluated by one criterion or both."""
    cells = [first_line(one.detail, 140) if one.verdict == "not run" else one.verdict for one in (result.strict, result.criterion)]
    return [result.solution, *cells]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join('---' for _ in header)}|"]
    return lines + [f"| {' | '.join(row)} |" for row in escaped]


def results_record(
    results: Sequence[SolutionResult], unmapped: Sequence[UnmappedSolution], notes: Sequence[str], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "note": CLAIM,
        "notes": list(notes),
        "scores": {
            "strict": strict_score(results).model_dump(),
            "kernelbench": criterion_score(results).model_dump(),
            "kernelbench_loose": criterion_score(results, is_loose=True).model_dump(),
        },
        "only_kernelbench": [one.solution for one in results if one.passes_only_criterion],
        "only_strict": [one.solution for one in results if one.passes_only_strict],
        "solutions": [one.model_dump(mode="json") for one in results],
        "unmapped": [one._asdict() for one in unmapped],
        "versions": dict(versions),
    }
