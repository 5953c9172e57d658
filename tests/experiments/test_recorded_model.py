"""Replaying the journal in results/real-model gives the same outcomes and the same learned values."""

import json
from pathlib import Path

import pytest

from evokernel.app import factory
from evokernel.core.config import parse_config
from evokernel.core.journal import Journal
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, ContextItem, Stage
from evokernel.core.run import Run

RECORDED = Path(__file__).parents[2] / "results" / "real-model" / "value-0"
ATTEMPTS = {attempt.id: attempt for attempt in Journal(RECORDED / "attempts.jsonl").read()}
MISSING = make_plugin("backend", "pallas").unavailable_reason()


class RecordedContexts:
    """Chooses the recorded items with their current values: retrieval may change, learning from the items may not."""

    def __init__(self, policy):
        self.learn = policy.learn

    def choose(self, state, memory):
        attempt = ATTEMPTS[state.next_id]
        refs = {ref.id: ref for ref in (*attempt.shown_items, *attempt.truncated_items)}
        items = memory.get(list(refs))
        q = {id: value.q for id, value in memory.values([item.id for item in items], attempt.stage).items() if value.visits}
        return Context(stage=attempt.stage, items=tuple(ContextItem(role=refs[i.id].role, item=i, q=q.get(i.id)) for i in items))


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=str(MISSING))
def test_replay_gives_the_same_outcomes_and_values(tmp_path):
    settings = {**Run.open(RECORDED).config.model_dump(mode="json"), "size": "laptop"}  # the only size when it was recorded
    engine = factory.create_engine(parse_config({**settings, "generator": {"name": "replay", "journal": str(RECORDED)}}), tmp_path / "run")
    engine.policy = RecordedContexts(engine.policy)
    try:
        attempts = {attempt.id: attempt for attempt in engine.make_attempts()}
        values = {stage: engine.memory.values(sorted(values), stage) for stage, values in recorded_values().items()}
    finally:
        engine.close()
    assert {id: comparable_outcome(attempt) for id, attempt in attempts.items()} == {
        id: comparable_outcome(attempt) for id, attempt in ATTEMPTS.items()
    }
    assert {stage: {id: [value.q, value.visits] for id, value in found.items()} for stage, found in values.items()} == recorded_values()
    assert any(attempt.outcome.feasible for attempt in attempts.values())


def comparable_outcome(attempt):
    """Return the part of an outcome that does not depend on the machine: pallas latencies are estimates of a compiler."""
    gates = [(gate.gate, gate.passed, gate.reason) for gate in attempt.outcome.gates]
    latency_us = attempt.outcome.latency_us and float(f"{attempt.outcome.latency_us:.12g}")  # the order of sums may change the last digits
    return gates, latency_us, attempt.reward, sorted(ref.id for ref in attempt.shown_items)


def recorded_values():
    """Return the values at the end of the recorded run, by stage and item."""
    return {Stage(stage): found for stage, found in json.loads((RECORDED / "values.json").read_text()).items()}
