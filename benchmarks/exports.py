"""Exports the kernels of a run and runs their own tests: values, refused calls, torch.compile, torch.export and gradients.

    python benchmarks/exports.py RUN [--all] [--out FOLDER] [--json]

`--all` exports kernels too that are not faster than their best baseline. Every kernel is tested in its own pytest process, at the sizes
that its export contains. The exit code is 1 if a test fails, or if without `--all` a kernel is not faster than its baseline.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
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
PYTEST_LIMIT_S = 1800


def test_kernel(kernel: ExportedKernel, scratch: Path) -> dict[str, Any]:
    """Run the tests of one kernel; return the outcomes of each check and the duration."""
    report = scratch / f"{kernel.folder.name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(kernel.folder)]
    began = time.monotonic()
    process = subprocess.run(command, cwd=kernel.folder, capture_output=True, text=True, timeout=PYTEST_LIMIT_S)
    outcomes = {check: Counter[str]() for check in CHECKS}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        outcome = "failed" if case.find("failure") is not None or case.find("error") is not None else "passed"
        outcome = "skipped" if case.find("skipped") is not None else outcome
        for check, name in CHECKS.items():
            if str(case.get("name")).partition("[")[0] == name:
                outcomes[check][outcome] += 1
    return {
        "task": kernel.task,
        "speed": kernel.comparison.describe(),
        "is_faster": kernel.comparison.is_faster,
        "latency_us": kernel.latency_us,
        "checks": {check: dict(counts) for check, counts in outcomes.items()},
        "is_passed": process.returncode == 0,
        "seconds": round(time.monotonic() - began, 1),
        "output": "" if process.returncode == 0 else process.stdout[-3000:],
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
        records = []
        for kernel in export.kernels:
            records.append(test_kernel(kernel, Path(scratch)))
            print(f"{kernel.task}: {'passed' if records[-1]['is_passed'] else records[-1]['output']}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"kernels": records, "left_out": [one.task for one in export.omitted]}, indent=2))
    else:
        print_table(export, records)
    is_faster = options.all or all(record["is_faster"] for record in records)
    return 0 if is_faster and all(record["is_passed"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
