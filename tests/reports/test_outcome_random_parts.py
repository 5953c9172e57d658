"""The number of parts at random positions in an outcome and its report."""

import pytest

from evokernel.core.records import Outcome
from evokernel.reports.outcome_report import describe_random_parts


@pytest.mark.parametrize(("count", "text"), [(16, " (16 at random positions)"), (0, " (0 at random positions)"), (None, "")])
def test_report_says_how_many_parts_ran_at_random_positions(count: int | None, text: str) -> None:
    assert describe_random_parts(Outcome(gates=(), random_parts=count)) == text


def test_outcome_of_an_earlier_version_has_no_number() -> None:
    record = Outcome(gates=(), run_share=0.5).model_dump(mode="json")
    del record["random_parts"]
    assert Outcome.model_validate(record).random_parts is None
