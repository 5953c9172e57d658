"""Rewards of Eq. 5 and Eq. 6, and the noise band around them."""

from math import log, tanh

import pytest
from engine_parts import make_attempt
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.records import GateResult, Outcome, Stage
from evokernel.engine.attempt_maker import compute_reward

PASSED = (GateResult(gate="check", passed=True),)


def timed_outcome(*samples):
    return Outcome(gates=PASSED, samples_us=samples)


def test_draft_reward_depends_on_feasibility_only():
    assert compute_reward(Stage.DRAFT, timed_outcome(5.0), None) == 1.0
    assert compute_reward(Stage.DRAFT, make_attempt(0, feasible=False).outcome, None) == -1.0


def test_refine_reward_is_tanh_of_log_speedup():
    best = make_attempt(0, latency=10.0)
    assert compute_reward(Stage.REFINE, timed_outcome(5.0, 5.0), best) == pytest.approx(tanh(log(2)))
    assert compute_reward(Stage.REFINE, timed_outcome(20.0, 20.0), best) == pytest.approx(-tanh(log(2)))
    assert compute_reward(Stage.REFINE, make_attempt(0, feasible=False).outcome, best) == -1.0


def test_gain_within_noise_earns_zero():
    best = make_attempt(0, latency=10.0)
    assert compute_reward(Stage.REFINE, timed_outcome(9.9, 9.9), best) == 0.0
    assert compute_reward(Stage.REFINE, timed_outcome(8.0, 9.0, 12.0, 14.0), best) == 0.0


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=20), st.floats(1e-3, 1e9))
def test_refine_reward_is_bounded(samples, best):
    assert -1.0 <= compute_reward(Stage.REFINE, timed_outcome(*samples), make_attempt(0, latency=best)) <= 1.0
