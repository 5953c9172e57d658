"""Eq. 5 and Eq. 6, and the noise band around them."""

from math import log, tanh

import pytest
from engine_parts import attempt
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.records import GateResult, Outcome, Stage
from evokernel.engine.reward import reward

PASSED = (GateResult(gate="check", passed=True),)


def timed(*samples):
    return Outcome(gates=PASSED, samples_us=samples)


def test_drafting_pays_for_feasibility_alone():
    assert reward(Stage.DRAFT, timed(5.0), None) == 1.0
    assert reward(Stage.DRAFT, attempt(0, feasible=False).outcome, None) == -1.0


def test_refining_pays_for_the_logarithm_of_the_gain():
    best = attempt(0, latency=10.0)
    assert reward(Stage.REFINE, timed(5.0, 5.0), best) == pytest.approx(tanh(log(2)))
    assert reward(Stage.REFINE, timed(20.0, 20.0), best) == pytest.approx(-tanh(log(2)))
    assert reward(Stage.REFINE, attempt(0, feasible=False).outcome, best) == -1.0


def test_a_gain_inside_the_noise_earns_nothing():
    best = attempt(0, latency=10.0)
    assert reward(Stage.REFINE, timed(9.9, 9.9), best) == 0.0
    assert reward(Stage.REFINE, timed(8.0, 9.0, 12.0, 14.0), best) == 0.0


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=20), st.floats(1e-3, 1e9))
def test_the_refine_reward_is_bounded(samples, best):
    assert -1.0 <= reward(Stage.REFINE, timed(*samples), attempt(0, latency=best)) <= 1.0
