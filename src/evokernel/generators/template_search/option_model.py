"""Scores options by the evidence: how likely an option works, and how much faster it appears to be. All options start equal."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from evokernel.core.records import Stage
from evokernel.generators.template_search.evidence import NO_TEXT, ContextText, Evidence
from evokernel.generators.template_search.hints import Hints

NO_HINTS = Hints()
OTHER_FAMILY = 0.4
"""Weight of evidence about a decision of the same name in another family."""
RECOMMENDED, WARNED_OF, NOT_SHOWN = 0.4, -2.0, -2.0
"""Score for a card that recommends an option, for a card that warns of it, and for an option whose API nothing in the context shows."""
UNKNOWN_REASON = 0.2
"""Suspicion of every decision if the hints do not list the failure reason."""
HINTED, NAMED = 5.0, 25.0
"""Factor of suspicion for a decision that the failure message hints at, and for an option that the message names."""
NAMED_WEIGHT = 3.0
"""How many failures a failure counts for if its message names the option."""

FAILURE_COST, SPEED_WEIGHT, CLEARING = 3.0, 2.0, 4.0
"""Successes that one failure outweighs, weight of log speed in a score, and how much each success reduces suspicion of an option."""
TRUST, NOVELTY = 0.5, 1.5
"""Bonus for an option that worked (drafting), and for an option that was not tried yet (refining)."""
MIN_IMPACT = 0.3
"""Impact of a decision whose options were all equally fast."""

OptionKey = tuple[str, str]
"""Decision name and option."""


class Tally:
    """Sums per family, decision and option; sums of other families count with a lower weight."""

    def __init__(self) -> None:
        self.by_family: dict[tuple[str, str, str], float] = defaultdict(float)
        self.overall: dict[OptionKey, float] = defaultdict(float)

    def add(self, family: str, key: OptionKey, amount: float) -> None:
        """Adds an amount to an option's sums."""
        self.by_family[family, *key] += amount
        self.overall[key] += amount

    def get(self, family: str, name: str, option: str) -> float:
        """The sum of a family plus the weighted sum of the other families."""
        own = self.by_family.get((family, name, option), 0.0)
        return own + OTHER_FAMILY * (self.overall.get((name, option), 0.0) - own)


class OptionModel:
    """Scores of options, from the evidence and the text of the context."""

    def __init__(
        self, evidence: Iterable[Evidence], hints: Hints = NO_HINTS, text: ContextText = NO_TEXT, stage: Stage = Stage.DRAFT
    ) -> None:
        observations = list(evidence)
        self.hints = hints
        self.trust, self.novelty = (TRUST, 0.0) if stage is Stage.DRAFT else (0.0, NOVELTY)
        self.successes, self.failures, self.gains, self.trials = Tally(), Tally(), Tally(), Tally()
        self.refused_sizes: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for observation in observations:
            for family, choice in observation.stages:
                for key in choice.items():
                    self.trials.add(family, key, 1.0)
                    if observation.is_feasible:
                        self.successes.add(family, key, 1.0)
                        self.gains.add(family, key, observation.gain / len(observation.stages))
        for observation in observations:
            if not observation.is_feasible:
                self.add_failure(observation)
        self.text_scores: dict[OptionKey, float] = defaultdict(float)
        for amount, table, words in (
            (RECOMMENDED, hints.cards, text.cards), (WARNED_OF, hints.forbidden, text.cards), (-NOT_SHOWN, hints.needs,
            text.cards + text.code),
        ):  # fmt: skip
            for key, phrases in table.items():
                self.text_scores[key] += amount if any(phrase in words for phrase in phrases) else 0.0
        for key in hints.needs:
            self.text_scores[key] += NOT_SHOWN

    def add_failure(self, failure: Evidence) -> None:
        """Counts a failure against the options that are suspected of it."""
        for family, key, share in self.share_blame(failure):
            is_named = self.hints.is_option_named(key[1], failure.reason, failure.detail)
            weight = max(self.hints.strength.get(failure.reason, 1.0), NAMED_WEIGHT if is_named else 0.0)
            self.failures.add(family, key, weight * share)
            if key[0] in self.hints.sizes.get(failure.reason, ()) and key[1].isdigit():
                self.refused_sizes[key[0]].append((int(key[1]), weight * share))

    def share_blame(self, failure: Evidence) -> Iterator[tuple[str, OptionKey, float]]:
        """Divides the blame for a failure among the suspects of all stages; options that worked elsewhere get less of it."""
        suspects = self.hints.suspects.get(failure.reason)
        detail = failure.detail.lower()
        weight: dict[tuple[str, OptionKey], float] = {}
        for family, choice in failure.stages:
            for name, option in choice.items():
                suspicion = UNKNOWN_REASON if suspects is None else suspects.get(name, 0.0)
                if suspicion:
                    factor = HINTED if any(hint in detail for hint in self.hints.words.get(name, ())) else 1.0
                    factor = NAMED if self.hints.is_option_named(option, failure.reason, failure.detail) else factor
                    weight[family, (name, option)] = suspicion * factor / (1 + CLEARING * self.successes.get(family, name, option))
        total = sum(weight.values())
        yield from ((family, key, share / total) for (family, key), share in weight.items())

    def score_option(self, family: str, name: str, option: str) -> float:
        """Higher if the option was fast, recommended by a card or never tried; lower if it is suspect, slow, warned of or not shown."""
        successes, failures = self.successes.get(family, name, option), self.failures.get(family, name, option)
        refused = OTHER_FAMILY * sum(share for size, share in self.refused_sizes[name] if option.isdigit() and size < int(option))
        reliability = math.log((1 + successes) / (1 + successes + FAILURE_COST * (failures + refused)))
        speed = SPEED_WEIGHT * self.gains.get(family, name, option) / (1 + successes)
        bonus = self.trust * successes / (1 + successes) + self.novelty / (1 + self.trials.get(family, name, option))
        return reliability + speed + bonus + self.text_scores.get((name, option), 0.0)

    def estimate_impact(self, family: str, name: str, options: Iterable[str]) -> float:
        """How much the speeds of a decision's options differ; 1 if fewer than two of them worked."""
        observations = [(self.gains.get(family, name, o), self.successes.get(family, name, o)) for o in options]
        speeds = [gain / successes for gain, successes in observations if successes]
        return MIN_IMPACT + max(speeds) - min(speeds) if len(speeds) > 1 else 1.0
