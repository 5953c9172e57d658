"""What evidence says about each option: how likely it works, and how much faster it seems to be. All options start equal."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from evokernel.core.records import Stage
from evokernel.generators.template_search.evidence import SILENCE, Evidence, Words
from evokernel.generators.template_search.hints import Hints

NOTHING = Hints()
OTHER = 0.4
"""Weight of what another sketch has to say about a question of the same name."""
NAMED, FORBIDDEN, CLOSED = 0.4, -2.0, -2.0
"""What a card's word for or against an option is worth, and what it costs that nobody has shown how to write it."""
UNKNOWN = 0.2
"""Suspicion of decisions that a failure reason does not speak of at all."""
HINTED, SPELLED = 5.0, 25.0
"""How much more suspect a decision is that a message hints at, and an option whose very word stands in it."""
CERTAIN = 3.0
"""How many failures one counts for whose message spells out the option."""

COSTS, GAINS, CLEARS = 3.0, 2.0, 4.0
"""How many successes a failure outweighs, what a gain in speed (log scale) is worth, and how far a success clears an option of blame."""
TRUST, HOPE = 0.5, 1.5
"""While drafting, what is known to work is worth something in itself; while refining, what was not tried yet is."""
LEAST = 0.3
"""Promise of a decision whose options were all equally fast."""

Pair = tuple[str, str]


class Tally:
    """Sums per sketch, decision and option; what other sketches say counts less."""

    def __init__(self) -> None:
        self.own: dict[tuple[str, str, str], float] = defaultdict(float)
        self.all: dict[Pair, float] = defaultdict(float)

    def add(self, sketch: str, pair: Pair, amount: float) -> None:
        """Counts something once."""
        self.own[sketch, *pair] += amount
        self.all[pair] += amount

    def get(self, sketch: str, name: str, option: str) -> float:
        """As a sketch sees it."""
        own = self.own.get((sketch, name, option), 0.0)
        return own + OTHER * (self.all.get((name, option), 0.0) - own)


class Belief:
    """Scores of options, from what was shown and tried."""

    def __init__(self, evidence: Iterable[Evidence], hints: Hints = NOTHING, words: Words = SILENCE, stage: Stage = Stage.DRAFT) -> None:
        listed = list(evidence)
        self.hints = hints
        self.trust, self.hope = (TRUST, 0.0) if stage is Stage.DRAFT else (0.0, HOPE)
        self.worked, self.failed, self.gained, self.tried = Tally(), Tally(), Tally(), Tally()
        self.exceeded: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for one in listed:
            for sketch, taken in one.parts:
                for pair in taken.items():
                    self.tried.add(sketch, pair, 1.0)
                    if one.is_feasible:
                        self.worked.add(sketch, pair, 1.0)
                        self.gained.add(sketch, pair, one.gain / len(one.parts))
        for one in listed:
            if not one.is_feasible:
                self.charge(one)
        self.said: dict[Pair, float] = defaultdict(float)
        for amount, table, text in (
            (NAMED, hints.cards, words.cards), (FORBIDDEN, hints.forbidden, words.cards), (-CLOSED, hints.needs, words.cards + words.code),
        ):  # fmt: skip
            for pair, phrases in table.items():
                self.said[pair] += amount if any(phrase in text for phrase in phrases) else 0.0
        for pair in hints.needs:
            self.said[pair] += CLOSED

    def charge(self, one: Evidence) -> None:
        """A failure counts against its suspects."""
        for sketch, pair, share in self.blame(one):
            is_spelled = self.hints.is_spelled(pair[1], one.reason, one.detail)
            weight = max(self.hints.strength.get(one.reason, 1.0), CERTAIN if is_spelled else 0.0)
            self.failed.add(sketch, pair, weight * share)
            if pair[0] in self.hints.sizes.get(one.reason, ()) and pair[1].isdigit():
                self.exceeded[pair[0]].append((int(pair[1]), weight * share))

    def blame(self, one: Evidence) -> Iterator[tuple[str, Pair, float]]:
        """A failure's blame, shared among the suspects of all stages; options that worked elsewhere are less suspect."""
        known = self.hints.suspects.get(one.reason)
        detail = one.detail.lower()
        weight: dict[tuple[str, Pair], float] = {}
        for sketch, taken in one.parts:
            for name, option in taken.items():
                suspicion = UNKNOWN if known is None else known.get(name, 0.0)
                if suspicion:
                    hinted = HINTED if any(hint in detail for hint in self.hints.words.get(name, ())) else 1.0
                    hinted = SPELLED if self.hints.is_spelled(option, one.reason, one.detail) else hinted
                    weight[sketch, (name, option)] = suspicion * hinted / (1 + CLEARS * self.worked.get(sketch, name, option))
        total = sum(weight.values())
        yield from ((sketch, pair, share / total) for (sketch, pair), share in weight.items())

    def score(self, sketch: str, name: str, option: str) -> float:
        """Higher when the option did well, was named by a card or was never tried; lower when suspect, slow, warned of or unheard of."""
        worked, failed = self.worked.get(sketch, name, option), self.failed.get(sketch, name, option)
        smaller = OTHER * sum(share for size, share in self.exceeded[name] if option.isdigit() and size < int(option))
        works = math.log((1 + worked) / (1 + worked + COSTS * (failed + smaller)))
        faster = GAINS * self.gained.get(sketch, name, option) / (1 + worked)
        seen = self.trust * worked / (1 + worked) + self.hope / (1 + self.tried.get(sketch, name, option))
        return works + faster + seen + self.said.get((name, option), 0.0)

    def impact(self, sketch: str, name: str, options: Iterable[str]) -> float:
        """How far apart in speed the options of a decision were seen to be; 1 while fewer than two were seen."""
        seen = [(self.gained.get(sketch, name, o), self.worked.get(sketch, name, o)) for o in options]
        speeds = [gained / worked for gained, worked in seen if worked]
        return LEAST + max(speeds) - min(speeds) if len(speeds) > 1 else 1.0
