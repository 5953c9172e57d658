"""Results of checked kernels in the formats that CI systems read: JUnit XML, GitHub annotations, and a Markdown summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

from evokernel.core.labels import format_count
from evokernel.reports import formatting
from evokernel.reports.kernel_check import KernelCheck, Status, describe_comparison, describe_method, format_slowdown
from evokernel.verifier.reasons import sanitize_text

SUITE_NAME = "evokernel check"


def junit_xml(checks: Sequence[KernelCheck], properties: Mapping[str, str]) -> str:
    """One test case for each kernel, in the structure that Jenkins, GitLab and GitHub's reporters read."""
    counts = {
        "tests": str(len(checks)),
        "failures": str(count_status(checks, Status.FAILED)),
        "errors": str(count_status(checks, Status.ERROR)),
        "skipped": "0",
        "time": f"{sum(check.seconds for check in checks):.3f}",
    }
    root = ET.Element("testsuites", {"name": SUITE_NAME, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": SUITE_NAME, **counts})
    table = ET.SubElement(suite, "properties")
    for name, value in properties.items():
        ET.SubElement(table, "property", name=name, value=sanitize_text(value))
    for check, name in zip(checks, case_names(checks)):
        suite.append(junit_case(check, name))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(['<?xml version="1.0" encoding="utf-8"?>\n', "\n"])


def junit_case(check: KernelCheck, name: str) -> ET.Element:
    """The test case of one kernel."""
    group = f"{check.candidate.backend}.{check.task.rpartition('/')[0]}"
    case = ET.Element("testcase", classname=group, name=name, file=str(check.path), time=f"{check.seconds:.3f}")
    if check.status is not Status.PASSED:
        tag = "failure" if check.status is Status.FAILED else "error"
        ET.SubElement(case, tag, type=check.reason, message=sanitize_text(check.summary)).text = sanitize_text(check.detail)
    else:
        ET.SubElement(case, "system-out").text = sanitize_text(check.summary)
    return case


def case_names(checks: Sequence[KernelCheck]) -> list[str]:
    """The name of each kernel's task, with its file if several kernels are for one task."""
    tasks = [check.task for check in checks]
    names = [check.task.rpartition("/")[2] for check in checks]
    return [f"{name} ({check.path})" if tasks.count(check.task) > 1 else name for check, name in zip(checks, names)]


def github_annotations(checks: Iterable[KernelCheck]) -> list[str]:
    """A workflow command for each kernel that failed, which GitHub shows beside its file."""
    lines = []
    for check in checks:
        if check.status is not Status.PASSED:
            level = "error" if check.status is Status.FAILED else "warning"
            title = escape_property(f"{check.task}: {check.reason}")
            lines.append(f"::{level} file={escape_property(str(check.path))},title={title}::{escape_message(sanitize_text(check.detail))}")
    return lines


def escape_message(text: str) -> str:
    """Escape the characters that would end the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Escape the characters that would end a property of a workflow command."""
    return escape_message(text).replace(":", "%3A").replace(",", "%2C")


def markdown_summary(checks: Sequence[KernelCheck], limit: float, changes: Sequence[str]) -> str:
    """The page that a job shows: the result, a table of kernels, the toolchain's changes, and the details of failures."""
    lines = [f"### {SUITE_NAME}: {describe_counts(checks)}", ""]
    lines += [
        "| kernel | task | result | latency | recorded | change | compared |",
        "|---|---|---|---|---|---|---|",
        *(markdown_row(check) for check in checks),
        "",
        f"A kernel fails if it is wrong, or slower than the recorded kernel by more than {100 * limit:g} % and the noise.",
    ]
    if changes:
        lines += ["", "Toolchain:", "", *(f"- {escape_cell(change)}" for change in changes)]
    for check in checks:
        if check.status is not Status.PASSED:
            text = sanitize_text(check.detail).replace("```", "` ` `")
            lines += ["", f"#### {escape_cell(check.task)}: {check.reason}", "", "```", text, "```"]
    return "\n".join(lines) + "\n"


def markdown_row(check: KernelCheck) -> str:
    """One row of the table of kernels."""
    recorded, mark = check.recorded, {Status.PASSED: "✓ passed", Status.FAILED: f"✗ {check.reason}", Status.ERROR: "– not verified"}
    cells = [
        f"`{check.path}`",
        check.task,
        mark[check.status],
        formatting.format_latency(check.outcome.latency_us if check.outcome else None),
        formatting.format_latency(recorded.outcome.latency_us if recorded else None),
        format_slowdown(check.comparison.slowdown),
        describe_method(check.comparison) or "not compared",
    ]
    return f"| {' | '.join(escape_cell(cell) for cell in cells)} |"


def escape_cell(text: str) -> str:
    """Text that cannot end a cell of a table."""
    return " ".join(sanitize_text(text).split()).replace("|", "\\|")


def describe_counts(checks: Sequence[KernelCheck]) -> str:
    """`3 kernels, 1 failed`, `2 kernels passed`."""
    failed, errors = count_status(checks, Status.FAILED), count_status(checks, Status.ERROR)
    if not failed and not errors:
        return f"{format_count(len(checks), 'kernel')} passed"
    parts = [f"{failed} failed"] * bool(failed) + [f"{errors} not verified"] * bool(errors)
    return ", ".join([format_count(len(checks), "kernel"), *parts])


def describe_check(check: KernelCheck) -> str:
    """The lines that a terminal shows for one kernel."""
    mark = {Status.PASSED: "✓", Status.FAILED: "✗", Status.ERROR: "–"}[check.status]
    head = f"{mark} {check.task}  {check.path}  {check.seconds:.1f} s"
    if check.status is Status.PASSED:
        return f"{head}\n    correct; {describe_comparison(check.comparison)}"
    return "\n".join([f"{head}  {check.reason}", *(f"    {line}".rstrip() for line in check.detail.splitlines())])


def count_status(checks: Iterable[KernelCheck], status: Status) -> int:
    """How many kernels have this result."""
    return sum(check.status is status for check in checks)
