"""Hill climbing as in autokernel: change the best kernel; keep the change if it is faster, otherwise go back to the best kernel."""

from __future__ import annotations

from random import Random

from evokernel.core.records import Attempt
from evokernel.core.state import State
from evokernel.policies.strategy import Strategy


class HillClimb(Strategy):
    """Refines the best kernel, always. It never accepts a slower kernel, so it stays in the first local optimum."""

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return the best kernel so far."""
        return state.best


plugin = HillClimb
