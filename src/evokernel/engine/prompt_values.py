"""Values of prompt variants: a bandit over the variants of each section of a prompt, learned from the rewards of attempts.

The values are a fold of the journal: the same attempts give the same values, in any order. A value is the mean reward of the attempts whose
prompt showed the variant, by stage, so it is bounded by the rewards and converges to the expected one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from random import Random

from evokernel.core.protocols import ItemValue
from evokernel.core.records import UNDECIDED_REASONS, Attempt, Stage

EXPLORATION = 0.5
"""Standard deviation of the belief about a variant that was never tried; it falls with the square root of the attempts."""
UNTRIED = ItemValue()


@dataclass
class PromptValues:
    """The value of each variant of each section, by stage."""

    values: dict[tuple[Stage, str, str], ItemValue] = field(default_factory=dict)

    def learn(self, attempt: Attempt) -> None:
        """Learn from the reward of an attempt, for the variants that its prompt showed."""
        failure = attempt.outcome.failure
        if failure and failure.reason in UNDECIDED_REASONS:
            return
        for section, variant in attempt.prompt_variants.items():
            before = self.get(attempt.stage, section, variant)
            visits = before.visits + 1
            self.values[attempt.stage, section, variant] = ItemValue(before.q + (attempt.reward - before.q) / visits, visits)

    def get(self, stage: Stage, section: str, variant: str) -> ItemValue:
        """Return the value of a variant; 0 without attempts."""
        return self.values.get((stage, section, variant), UNTRIED)

    def choose(self, variants: Mapping[str, tuple[str, ...]], stage: Stage, seed: str) -> dict[str, str]:
        """Choose a variant of each section by Thompson sampling; the same values and the same seed give the same choice."""
        return {section: self.choose_variant(section, names, stage, Random(f"{seed}/{section}")) for section, names in variants.items()}

    def choose_variant(self, section: str, names: tuple[str, ...], stage: Stage, random: Random) -> str:
        """Draw the mean reward of each variant from the belief about it, and return the highest; the first among equals."""
        values = [self.get(stage, section, name) for name in names]
        draws = [random.gauss(value.q, EXPLORATION / sqrt(value.visits + 1)) for value in values]
        return names[draws.index(max(draws))]
