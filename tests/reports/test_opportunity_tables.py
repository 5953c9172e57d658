"""Opportunities in tables, in JSON, in the report and beside the source."""

import pytest
import sample_run

from evokernel.cli.verify import format_opportunities
from evokernel.core.causes import CAUSES
from evokernel.core.records import Candidate, Opportunity, Profile
from evokernel.reports.opportunities import annotate_source, explain_cause, opportunity_table
from evokernel.reports.outcome_report import outcome_record
from evokernel.reports.page import render_page

ROWS = (
    Opportunity(cause="small_copies", gain_us=30.0, summary="Use larger blocks.", card="larger-blocks"),
    Opportunity(cause="cross_lane", gain_us=12.5, line=2, summary="Reduce once."),
    Opportunity(cause="vector_work", gain_us=3.0, line=2, summary="Compute it once."),
)
TASK = sample_run.make_task("relu")
KERNEL = Candidate(backend="pallas", files={"kernel.py": "a = 1\nb = sum(a)\n"})


def outcome(rows=ROWS):
    profile = Profile(bottleneck="dma_latency", summary="It waits.", opportunities=rows)
    return sample_run.passed_outcome(100.0).model_copy(update={"profile": profile})


def test_table_has_the_share_of_the_latency_and_the_next_move():
    table = opportunity_table(outcome())
    assert table.format_rows()[0] == ["small_copies", "", "30.0 µs", "30 %", "Use larger blocks. Card: larger-blocks."]
    assert table.format_rows()[1][:4] == ["cross_lane", "2", "12.5 µs", "12 %"]


def test_profile_without_opportunities_has_no_table():
    assert opportunity_table(outcome(())) is None
    assert annotate_source(KERNEL.files, outcome(())) == {}
    assert opportunity_table(sample_run.failed_outcome("build", "compile_error")) is None


def test_line_shows_its_largest_gain():
    ((name, lines),) = annotate_source(KERNEL.files, outcome()).items()
    assert name == "kernel.py"
    assert [(line.number, line.gain_us, line.cause) for line in lines] == [(1, None, ""), (2, 12.5, "cross_lane")]


@pytest.mark.parametrize("files", [{"a.cpp": "x\ny\n", "b.cpp": "x\ny\n"}, {"kernel.py": "one line\n"}])
def test_lines_of_an_unknown_file_are_not_annotated(files):
    assert annotate_source(files, outcome()) == {}


def test_verify_prints_the_table_and_the_lines():
    text = format_opportunities(KERNEL, outcome())
    for part in (
        "small_copies",
        "30.0 µs",
        "30 %",
        "Use larger blocks. Card: larger-blocks.",
        "12.5 µs     2  b = sum(a)",
        "do not add up",
    ):
        assert part in text, part
    assert format_opportunities(KERNEL, outcome(())) == "profile: no opportunity was found"
    assert "not timed" in format_opportunities(KERNEL, sample_run.failed_outcome("build", "compile_error"))


def test_json_has_the_opportunities_with_their_meaning():
    records = outcome_record(TASK, KERNEL, outcome())["opportunities"]
    assert [record["cause"] for record in records] == ["small_copies", "cross_lane", "vector_work"]
    assert (records[0]["share"], records[0]["meaning"]) == (0.3, CAUSES["small_copies"])
    assert outcome_record(TASK, KERNEL, outcome(()))["opportunities"] == []


def test_report_shows_the_table_of_the_best_kernel(tmp_path):
    attempts = [sample_run.make_attempt(TASK, 0, outcome(), candidate=KERNEL)]
    run = sample_run.write_run(tmp_path / "one", [TASK], attempts, budget=1)
    assert "Use larger blocks. Card: larger-blocks." in render_page(run, attempts, None, [])


def test_every_cause_completes_a_sentence():
    assert explain_cause("spills") == "The kernel loses time by values that do not fit into registers."
    assert explain_cause("unknown") == ""
