"""A slowdown counts only beyond the limit and the noise; the reports for CI systems parse and escape what kernels write."""

from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import pytest
import sample_run

from evokernel.core.records import Candidate, Outcome
from evokernel.reports.check_formats import github_annotations, junit_xml, markdown_summary
from evokernel.reports.kernel_check import (
    Comparison,
    KernelCheck,
    RecordedKernel,
    Status,
    check_record,
    compare_with_recorded,
    describe_comparison,
    is_same_device,
    list_toolchain_changes,
)

OLD, NEW = (Candidate(backend="cpp", files={"kernel.cpp": text}) for text in ("old", "new"))
HOSTILE = 'a]]><b&"\x1b[31m%\n| ``` ::error::x\n'


def timed(latency_us: float, incumbent_us: float | None = None, spread: float = 0.005, eager_us: float = 100.0, pairs: int = 20) -> Outcome:
    random = Random(7)
    samples = tuple(latency_us * random.uniform(1 - spread, 1 + spread) for _ in range(pairs))
    incumbents = () if incumbent_us is None else tuple(incumbent_us * random.uniform(1 - spread, 1 + spread) for _ in range(pairs))
    return sample_run.passed_outcome(latency_us).model_copy(
        update={
            "samples_us": samples,
            "baseline_us": {"eager": (eager_us,) * pairs},
            "incumbent_us": incumbents,
            "incumbent": OLD.id if incumbents else "",
        }
    )


@pytest.mark.parametrize(
    ("now", "candidate", "is_slower", "method"),
    [
        (timed(110.0, 100.0), NEW, True, "measured alternately"),
        (timed(104.0, 100.0), NEW, False, "measured alternately"),
        (timed(108.0, 100.0, spread=0.3), NEW, False, "measured alternately"),
        (timed(60.0, 100.0), NEW, False, "measured alternately"),
        (timed(110.0, 100.0, pairs=3), NEW, True, "measured alternately"),
        (timed(110.0, 100.0, pairs=3, spread=0.2), NEW, False, "measured alternately"),
        (timed(110.0), OLD, True, "speed-up over PyTorch eager now and in the run"),
        (timed(120.0, eager_us=120.0), OLD, False, "speed-up over PyTorch eager now and in the run"),
    ],
    ids=["slower", "within the limit", "noise", "faster", "few pairs", "few noisy pairs", "equal code", "slower machine"],
)
def test_a_slowdown_counts_beyond_limit_and_noise(now: Outcome, candidate: Candidate, is_slower: bool, method: str) -> None:
    recorded = RecordedKernel("made/relu/0", OLD, timed(100.0))
    comparison = compare_with_recorded(now, candidate, recorded, 0.05, same_device=True)
    assert (comparison.is_slower, comparison.method) == (is_slower, method)
    assert comparison.slowdown is not None
    assert comparison.interval is not None
    assert comparison.interval[0] <= comparison.slowdown <= comparison.interval[1]


def test_equal_code_on_an_equal_toolchain_is_not_slower() -> None:
    recorded = RecordedKernel("made/relu/0", OLD, timed(100.0))
    equal = compare_with_recorded(timed(190.0), OLD, recorded, 0.05, same_device=True, same_toolchain=True)
    assert not equal.is_slower
    assert equal.slowdown == pytest.approx(0.9, abs=0.02)
    assert "code and toolchain are equal" in describe_comparison(equal)
    changed = compare_with_recorded(timed(190.0, 100.0), NEW, recorded, 0.05, same_device=True, same_toolchain=True)
    assert changed.is_slower


def test_a_limit_above_one_hundred_percent() -> None:
    recorded = RecordedKernel("made/relu/0", OLD, timed(100.0))
    slowdowns = [compare_with_recorded(timed(us, 100.0), NEW, recorded, 2.0, same_device=True).is_slower for us in (290.0, 320.0)]
    assert slowdowns == [False, True]


def test_reports_say_how_often_a_slowdown_was_measured() -> None:
    slower = Comparison(0.2, (0.1, 0.3), True, "measured alternately", 2)
    assert describe_comparison(slower).endswith("measured alternately; slower in each of 2 measurements")
    assert describe_comparison(slower._replace(is_slower=False)).endswith("the last of 2 measurements shows no slowdown")


def test_estimates_are_compared_directly() -> None:
    recorded = RecordedKernel("made/relu/0", OLD, sample_run.estimated_outcome(50.0))
    slower = compare_with_recorded(sample_run.estimated_outcome(53.0), OLD, recorded, 0.05, same_device=False)
    assert slower == Comparison(pytest.approx(0.06), None, True, "estimate against the recorded estimate")
    assert not compare_with_recorded(sample_run.estimated_outcome(52.0), NEW, recorded, 0.05, same_device=False).is_slower


@pytest.mark.parametrize(
    ("now", "recorded", "same_device", "why"),
    [
        (timed(500.0), timed(100.0), False, "another device"),
        (timed(500.0).model_copy(update={"versions": {"torch": "9"}}), timed(100.0), True, "another PyTorch"),
        (timed(500.0), timed(100.0).model_copy(update={"clock": "wall"}), True, "other clocks"),
        (timed(500.0, pairs=4), timed(100.0), True, "too few samples"),
        (timed(500.0).model_copy(update={"samples_us": ()}), timed(100.0), True, "without a latency"),
        (timed(500.0), None, True, "no correct kernel"),
    ],
)
def test_what_cannot_be_compared_never_fails_and_says_why(now: Outcome, recorded: Outcome | None, same_device: bool, why: str) -> None:
    kernel = RecordedKernel("made/relu/0", OLD, recorded) if recorded else None
    comparison = compare_with_recorded(now, OLD, kernel, 0.05, same_device=same_device)
    assert not comparison.is_slower
    assert comparison.slowdown is None
    assert why in describe_comparison(comparison)


def test_toolchain_changes_name_both_versions() -> None:
    then, now = {"compiler": "g++ 12", "python": "3.12"}, {"compiler": "g++ 13", "python": "3.12", "chip": "v6e"}
    changes = ["compiler: g++ 12 in the run, g++ 13 here", "chip: not recorded in the run, v6e here"]
    assert list_toolchain_changes(then, now) == changes
    assert list_toolchain_changes(now, now) == []
    assert is_same_device({"cpu": "x", "compiler": "1"}, {"cpu": "x", "compiler": "2"})
    assert not is_same_device({"gpu": "H100"}, {"gpu": "H200"})


@pytest.fixture
def checks() -> list[KernelCheck]:
    recorded = RecordedKernel("made/relu/0", OLD, timed(100.0))
    passed = KernelCheck(Path("k/relu.cpp"), "made/relu", NEW, Status.PASSED, seconds=1.5, outcome=timed(90.0), recorded=recorded)
    failed = KernelCheck(Path("k,a:b.cpp"), "made/gelu", NEW, Status.FAILED, "mismatch", HOSTILE, 2.0)
    return [passed, failed, KernelCheck(Path("x.cpp"), "made/tanh", NEW, Status.ERROR, "infrastructure", "no worker")]


def test_junit_has_the_structure_that_ci_systems_read(checks: list[KernelCheck]) -> None:
    root = ET.fromstring(junit_xml(checks, {"compiler": "g++\x00"}))
    suite = root.find("testsuite")
    assert root.tag == "testsuites"
    assert suite is not None
    for element in (root, suite):
        assert [element.get(name) for name in ("tests", "failures", "errors", "skipped", "time")] == ["3", "1", "1", "0", "3.500"]
    assert suite.find("properties/property").attrib == {"name": "compiler", "value": "g++ "}
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name"), case.get("file")) for case in cases] == [
        ("cpp.made", "relu", "k/relu.cpp"),
        ("cpp.made", "gelu", "k,a:b.cpp"),
        ("cpp.made", "tanh", "x.cpp"),
    ]
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["error"]]
    failure = cases[1][0]
    assert failure.get("type") == "mismatch"
    assert failure.text == HOSTILE.replace("\x1b", " ")


def test_kernels_of_one_task_have_different_names(checks: list[KernelCheck]) -> None:
    twice = [checks[0], checks[0]._replace(path=Path("other.cpp"))]
    names = [case.get("name") for case in ET.fromstring(junit_xml(twice, {})).iter("testcase")]
    assert names == ["relu (k/relu.cpp)", "relu (other.cpp)"]


def test_annotations_are_one_line_each_and_escaped(checks: list[KernelCheck]) -> None:
    error, warning = github_annotations(checks)
    assert error.startswith("::error file=k%2Ca%3Ab.cpp,title=made/gelu%3A mismatch::a]]>")
    assert "\n" not in error
    assert error.endswith("%25%0A| ``` ::error::x%0A")
    assert warning == "::warning file=x.cpp,title=made/tanh%3A infrastructure::no worker"


def test_summary_is_a_table_that_details_cannot_break(checks: list[KernelCheck]) -> None:
    lines = markdown_summary(checks, 0.05, ["compiler: a | b"]).splitlines()
    assert lines[0] == "### evokernel check: 3 kernels, 1 failed, 1 not verified"
    rows = [line for line in lines if line.startswith("|")]
    assert all(row.count("|") == 8 for row in rows[:5]), rows
    assert "- compiler: a \\| b" in lines
    assert lines.count("```") == 4
    assert check_record(checks[2])["latency_us"] is None
