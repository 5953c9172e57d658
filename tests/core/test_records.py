"""Records: equality, derived values and unknown values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core import records
from evokernel.core.config import RunConfig
from evokernel.core.records import Candidate, GateResult, Job, Outcome, Profile, Usage
from evokernel.core.statistics import quantile
from evokernel.suites.loader import load_tasks


def test_candidate_id_depends_on_files_only():
    a = Candidate(backend="cpp", files={"kernel.cpp": "x"}, notes="one")
    assert a.id == Candidate(backend="cpp", files={"kernel.cpp": "x"}, notes="two").id
    assert a.id != Candidate(backend="cpp", files={"kernel.cpp": "y"}).id


def test_outcome_without_gates_is_not_feasible():
    assert not Outcome(gates=()).feasible
    assert Outcome(gates=()).latency_us is None
    outcome = Outcome(gates=(GateResult(gate="build", passed=True), GateResult(gate="check", passed=False, reason="mismatch")))
    assert outcome.is_compiled
    assert outcome.failure.reason == "mismatch"


def test_speedup_is_unknown_without_a_baseline():
    passed = (GateResult(gate="time", passed=True),)
    assert Outcome(gates=passed, samples_us=(1.0, 2.0)).speedup is None
    assert Outcome(gates=passed, samples_us=(2.0, 2.0), baseline_us={"eager": (6.0, 6.0)}).speedup == 3


def test_figures_that_are_no_numbers_are_not_reported():
    profile = Profile(bottleneck="memory", summary="", figures={"copied_gbs": 3.0, "share": float("nan"), "rate": float("inf")})
    assert profile.figures == {"copied_gbs": 3.0}
    damaged = '{"bottleneck":"memory","summary":"","figures":{"copied_gbs":3.0,"share":null}}'
    assert Profile.model_validate_json(damaged) == profile, "journals of earlier versions have null for such figures"


def test_unknown_cost_stays_unknown():
    usage = Usage(model="m", calls=1, input_tokens=10, output_tokens=2, cost_usd=0.5)
    assert (usage + Usage()).cost_usd == 0.5
    assert (usage + usage).cost_usd == 1.0
    assert (usage + Usage(model="m", calls=1)).cost_usd is None


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_stays_within_its_samples(samples, q):
    value = quantile(tuple(samples), q)
    assert min(samples) * (1 - 1e-12) <= value <= max(samples) * (1 + 1e-12)
    assert quantile(tuple(samples), 0.0) == min(samples)
    assert quantile(tuple(samples), 1.0) == max(samples)


def record_classes(base=records.Record):
    for record_class in base.__subclasses__():
        yield record_class
        yield from record_classes(record_class)


@pytest.mark.parametrize("record_class", [RunConfig, *(c for c in record_classes() if c.__module__ == records.__name__)])
def test_every_field_of_a_record_is_explained(record_class):
    assert [name for name, field in record_class.model_fields.items() if not field.description] == []


def test_simulations_may_take_longer_at_the_full_size():
    candidate, limits = Candidate(backend="ascendc", files={}), []
    for size in ("laptop", "full"):
        (task,) = load_tasks("starter/softmax", size)
        limits.append(Job(backend="ascendc", task=task, candidate=candidate).simulation_timeout_s)
    assert limits == [60, 120]
