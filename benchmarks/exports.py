"""Exports the kernels of a run and runs their own tests: values, refused calls, torch.compile, torch.export and gradients.

    python benchmarks/exports.py RUN [--all] [--out FOLDER] [--json]

`--all` exports kernels too that are not faster than their best baseline. Tests run at the sizes that an export contains. The exit code is 1
if a test fails, or if without `--all` a kernel is not faster than its baseline.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

from evokernel.core.run import Run
from evokernel.reports import formatting
from evokernel.reports.export import ExportedKernel, ExportResult, export_kernels

CHECKS = {
    "values": "test_kernel_matches_the_reference",
    "dtype": "test_other_dtype_is_refused",
    "rank": "test_other_rank_is_refused",
    "size": "test_other_size_is_refused",
    "fall-back": "test_reference_computes_other_dtypes_on_request",
    "compile": "test_compiled_model_equals_eager",
    "export": "test_exported_program_equals_eager",
    "gradients": "test_gradients_raise_unless_the_reference_computes_them",
}
OUTCOMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}
PYTEST_LIMIT_S = 3600


def run_tests(export: ExportResult, scratch: Path) -> dict[str, list[ElementTree.Element]]:
    """Run the tests of all kernels in one process; return their results by the name of the kernel's folder."""
    report = scratch / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(export.folder)]
    process = subprocess.run(command, cwd=export.folder, stdout=sys.stderr, timeout=PYTEST_LIMIT_S)
    if not report.exists():
        raise SystemExit(f"pytest ended with exit code {process.returncode}")
    cases: dict[str, list[ElementTree.Element]] = {kernel.folder.name: [] for kernel in export.kernels}
    for case in ElementTree.parse(report).iter("testcase"):
        cases[str(case.get("classname")).split(".")[-2]].append(case)
    return cases


def summarize_kernel(kernel: ExportedKernel, cases: list[ElementTree.Element]) -> dict[str, Any]:
    """Return the outcomes of each check and the duration."""
    outcomes = {check: Counter[str]() for check in CHECKS}
    for case in cases:
        outcome = next((name for tag, name in OUTCOMES.items() if case.find(tag) is not None), "passed")
        for check, name in CHECKS.items():
            if str(case.get("name")).partition("[")[0] == name:
                outcomes[check][outcome] += 1
    return {
        "task": kernel.task,
        "speed": kernel.comparison.describe(),
        "is_faster": kernel.comparison.is_faster,
        "latency_us": kernel.latency_us,
        "checks": {check: dict(counts) for check, counts in outcomes.items()},
        "is_passed": bool(cases) and not any(counts["failed"] for counts in outcomes.values()),
        "seconds": sum(float(case.get("time") or 0) for case in cases),
    }


def format_check(counts: dict[str, int]) -> str:
    """`3/3`: tests that passed and tests that ran; `–` if all were skipped."""
    ran = counts.get("passed", 0) + counts.get("failed", 0)
    return f"{counts.get('passed', 0)}/{ran}" if ran else formatting.UNKNOWN


def print_table(export: ExportResult, records: list[dict[str, Any]]) -> None:
    """Print a Markdown table of the kernels and a line about the others."""
    print(f"| task | latency | speed | {' | '.join(CHECKS)} | seconds |")
    print(f"|---|---:|---|{'---|' * len(CHECKS)}---:|")
    for record in records:
        checks = " | ".join(format_check(record["checks"][check]) for check in CHECKS)
        latency = formatting.format_latency(record["latency_us"])
        print(f"| {record['task']} | {latency} | {record['speed']} | {checks} | {record['seconds']:.0f} |")
    passed, faster = sum(record["is_passed"] for record in records), sum(record["is_faster"] for record in records)
    print(f"\n{passed} of {len(records)} exported kernels pass all their tests; {faster} are faster than their best baseline.")
    print(f"Times: {formatting.clock_label(export.clocks)}.")
    if omitted := export.describe_omitted():
        print(omitted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--all", action="store_true", help="export kernels too that are not faster than their best baseline")
    parser.add_argument("--out", type=Path, help="folder of the export [a temporary one]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    run = Run.open(options.run)
    with tempfile.TemporaryDirectory() as scratch:
        export = export_kernels(run, run.attempts(), options.out or Path(scratch) / "export", export_all=options.all)
        cases = run_tests(export, Path(scratch))
    records = [summarize_kernel(kernel, cases[kernel.folder.name]) for kernel in export.kernels]
    if options.json:
        print(json.dumps({"kernels": records, "left_out": [one.task for one in export.omitted]}, indent=2))
    else:
        print_table(export, records)
    is_faster = options.all or all(record["is_faster"] for record in records)
    return 0 if is_faster and all(record["is_passed"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
