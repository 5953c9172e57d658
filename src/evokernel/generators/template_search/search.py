"""Takes decisions: drafts are drawn from all combinations, evenly when nothing was shown; refinements change a few of a kernel's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

from evokernel.core.records import Attempt
from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.evidence import Evidence, Stages, decisions_in
from evokernel.generators.template_search.operator import WHOLE, Operator, Part, Taken
from evokernel.generators.template_search.option_model import Belief

Source = Callable[[Part], Mapping[str, str]]
"""Where decisions come from that are not to be drawn."""

UNIFORM = 0.1
"""Share of the probability that is spread evenly, so that no option is ever out of reach."""
TAKE_OVER = 0.8
"""How often a draft takes over the decisions of a kernel shown that worked."""
CROSS, MARGIN = 0.5, 0.1
"""How often a refinement builds on a faster kernel that is known, and how much faster (log scale) it must be."""
FURTHER = (0.5, 0.3)
"""Chance of a second and of a third change in one refinement."""
REMEDY, MINOR = 4.0, 0.1
"""How much more often a remedy is tried than another change, and how much less often something that seldom matters."""


class Writer:
    """Takes decisions for one operator, by what is believed about each option."""

    def __init__(self, operator: Operator, belief: Belief, random: Random, temperature: float) -> None:
        self.operator, self.belief, self.random, self.temperature = operator, belief, random, temperature

    def draft(self, evidence: Sequence[Evidence]) -> tuple[Taken, str]:
        """Stage by stage the decisions of a kernel shown that worked, best one for this very task; or from scratch, by what was shown."""
        good = [e for e in evidence if e.is_feasible]
        own = [e for e in good if e.is_own]
        taken_over: list[str] = []

        def source(part: Part) -> Mapping[str, str]:
            donors = having(own, part.sketch) or having(good, part.sketch)
            if not donors or self.random.random() >= TAKE_OVER:
                return {}
            donor = self.random.choices(donors, [math.exp(e.gain / self.temperature) for e in donors])[0]
            taken_over.append(part.sketch)
            return self.random.choice([taken for sketch, taken in donor.parts if sketch == part.sketch])

        taken = self.complete(source)
        if taken_over:
            return taken, f"taken over from kernels shown ({', '.join(dict.fromkeys(taken_over))})"
        return taken, "drawn by what was shown" if evidence else "drawn afresh"

    def refine(self, start: Attempt, evidence: Sequence[Evidence]) -> tuple[Taken, str]:
        """The start point's decisions, or those of a faster kernel for the task, with a few changed; now and then a fresh draw."""
        hints, profile = self.belief.hints, start.outcome.profile
        kept = decisions_in(start.candidate.code, hints)
        if self.random.random() < UNIFORM:
            return self.complete(lambda part: {}), "drawn afresh, to explore"
        why = f"refined {start.id}" + (f", bound by {profile.bottleneck}" if profile and profile.bottleneck else "")
        level = next((e.gain for e in evidence if e.is_feasible and e.parts == kept), 0.0)
        mine = {stage.form.family for plan in self.operator.plans.values() for stage in plan.stages}
        faster = [e for e in evidence if e.is_feasible and e.gain > level + MARGIN and mine & {sketch for sketch, _ in e.parts}]
        if faster and self.random.random() < CROSS:
            donor = self.random.choices(faster, [math.exp(e.gain / self.temperature) for e in faster])[0]
            kept, why = merged(kept, donor), f"{why}, after a faster kernel"
        remedies = hints.remedy(profile)
        taken = self.change(self.complete(Kept(kept)), remedies)
        for share in FURTHER:
            if self.random.random() < share:
                taken = self.change(taken, remedies)
        return taken, why

    def change(self, taken: Taken, remedies: Mapping[str, str]) -> Taken:
        """One decision taken otherwise; which one depends on what promises most, and on what the bottleneck calls for."""
        parts = [self.operator.whole(), *self.operator.parts(taken.whole)]
        answers = [taken.whole, *(choice for _, choice in taken.stages)]
        asked = [
            (i, part.sketch, d)
            for i, (part, answer) in enumerate(zip(parts, answers))
            for d in part.decisions
            if d.name in answer and d.when(answer) and answer[d.name] in d.options and len(d.options) > 1
        ]
        if not asked:
            return taken
        factor = {**dict.fromkeys(self.belief.hints.minor, MINOR), **dict.fromkeys(remedies, REMEDY)}
        weights = [self.promise(sketch, d, answers[i][d.name]) * factor.get(d.name, 1.0) for i, sketch, d in asked]
        i, sketch, decision = self.random.choices(asked, weights)[0]
        others = onward(decision.options, answers[i][decision.name], remedies.get(decision.name, ""))
        changed = {**answers[i], decision.name: self.pick(sketch, decision.name, others)}
        kept = [(part.sketch, changed if j == i else answer) for j, (part, answer) in enumerate(zip(parts, answers))]
        return self.complete(Kept(tuple(kept)))

    def promise(self, sketch: str, decision: Decision, now: str) -> float:
        """How much better the best other option may be than the present one, and how much the decision was seen to matter."""
        best = max(self.belief.score(sketch, decision.name, o) for o in decision.options if o != now)
        better = max(-3.0, min(3.0, best - self.belief.score(sketch, decision.name, now)))
        return self.belief.impact(sketch, decision.name, decision.options) * math.exp(better / self.temperature)

    def complete(self, source: Source) -> Taken:
        """All decisions that arise, in order: those a source has are kept where they are possible, the others drawn."""
        whole = self.answer(self.operator.whole(), source(self.operator.whole()))
        stages = tuple((part.sketch, self.answer(part, source(part))) for part in self.operator.parts(whole))
        return Taken(whole, stages)

    def answer(self, part: Part, kept: Mapping[str, str]) -> dict[str, str]:
        """The decisions of one part."""
        result: dict[str, str] = {}
        for decision in part.decisions:
            if decision.name not in result and decision.when(result):
                given = kept.get(decision.name, "")
                result[decision.name] = given if given in decision.options else self.pick(part.sketch, decision.name, decision.options)
        return result

    def pick(self, sketch: str, name: str, options: Sequence[str]) -> str:
        """An option by its score, with a share spread evenly."""
        weights = [math.exp(self.belief.score(sketch, name, option) / self.temperature) for option in options]
        total = sum(weights)
        return self.random.choices(options, [(1 - UNIFORM) * w / total + UNIFORM / len(options) for w in weights])[0]


class Kept:
    """A source of decisions: a kernel's own, its stages of one sketch in their order."""

    def __init__(self, parts: Stages) -> None:
        self.parts, self.used = parts, set[int]()

    def __call__(self, part: Part) -> Mapping[str, str]:
        """The first decisions for this sketch that were not given out yet; else what code without a sketch reveals."""
        found = [i for i, (sketch, _) in enumerate(self.parts) if sketch == part.sketch]
        if left := [i for i in found if i not in self.used]:
            self.used.add(left[0])
            return self.parts[left[0]][1]
        if found:
            return self.parts[found[-1]][1]
        return next((taken for sketch, taken in self.parts if not sketch), {})


def having(evidence: Sequence[Evidence], sketch: str) -> list[Evidence]:
    """Kernels with a stage of this sketch; what concerns a kernel as a whole is taken from its own task's alone."""
    return [e for e in evidence if any(s == sketch for s, _ in e.parts) and (sketch != WHOLE or e.is_own)]


def merged(kept: Stages, donor: Evidence) -> Stages:
    """Another kernel's decisions where it has a stage of the same sketch; as a whole, only if it is one for the same task."""
    other = tuple((sketch, taken) for sketch, taken in donor.parts if donor.is_own or sketch != WHOLE)
    names = {sketch for sketch, _ in other}
    return (*other, *((sketch, taken) for sketch, taken in kept if sketch not in names))


def onward(options: Sequence[str], now: str, direction: str) -> tuple[str, ...]:
    """The other options; only those after or before the present one where a remedy says `up` or `down` and there are any."""
    at = options.index(now)
    side = options[at + 1 :] if direction == "up" else options[:at] if direction == "down" else ()
    return tuple(side) or tuple(o for o in options if o != now)
