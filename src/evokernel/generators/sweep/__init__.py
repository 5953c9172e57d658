"""A generator without a model: kernels from parametrised sketches, its choices learned from the context it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, Candidate, Context, Outcome, Reply, State
from evokernel.generators.sweep.decisions import Decision, Operator, line_of, open_decisions
from evokernel.generators.sweep.dialect import dialect_of
from evokernel.generators.sweep.graph import NoSketch
from evokernel.generators.sweep.learn import SAME, Belief, Evidence, card_text, decisions_in, gather

TRIES = 100
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


class Sweep:
    """Drafts are drawn from all combinations of decisions, evenly when nothing was shown; refinements change a few."""

    def __init__(self, backend: str = "cpp", seed: int = 0, temperature: float = 1.0) -> None:
        self.dialect = dialect_of(backend)
        if temperature <= 0:
            raise UserError(f"generator.temperature must be above 0, not {temperature:g}")
        self.backend, self.seed, self.temperature = backend, seed, temperature

    def write(self, state: State, context: Context) -> Reply:
        """A kernel whose decisions follow from the state, the context and the seed alone."""
        try:
            operator = self.dialect.operator(state.task)
        except NoSketch as gap:
            return Reply(candidate=Candidate(backend=self.backend, files={}, notes=f"sweep has no sketch for {gap}"))
        hints = self.dialect.hints
        random = Random(f"{self.seed}/{state.next_id}")
        seen = state if context.history else State(task=state.task, round=state.round)
        evidence = gather(operator.sketch, seen, context, self.backend, hints)
        writer = Writer(operator, Belief(evidence, hints, card_text(context), context.stage), random, self.temperature)
        tried = {decisions_line(a.candidate.code) for a in seen.attempts}
        taken: dict[str, str] = {}
        why = ""
        for _ in range(TRIES):
            taken, why = writer.refine(context.start, evidence) if context.start else writer.draft(evidence)
            if line_of(operator, taken) not in tried:
                break
        code = self.dialect.render(operator, taken)
        notes = f"{why}: {line_of(operator, taken)}"
        candidate = Candidate(backend=self.backend, files={self.dialect.file: code}, notes=notes)
        return Reply(candidate=candidate, text=f"{notes}\n\n```{self.dialect.fence}\n{code}```\n")

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: what a sweep learns stands in the decisions of its kernels."""
        return None


class Writer:
    """Takes decisions for one operator, by what is believed about each option."""

    def __init__(self, operator: Operator, belief: Belief, random: Random, temperature: float) -> None:
        self.operator, self.belief, self.random, self.temperature = operator, belief, random, temperature
        self.decisions = open_decisions(operator)

    def draft(self, evidence: Sequence[Evidence]) -> tuple[dict[str, str], str]:
        """Decisions of a kernel shown that worked, best one for this very task; or from scratch, by what was shown."""
        donors = [e for e in evidence if e.is_feasible and e.weight == SAME]
        donors = [e for e in donors if e.is_own] or donors
        if donors and self.random.random() < TAKE_OVER:
            donor = self.random.choices(donors, [math.exp(e.gain / self.temperature) for e in donors])[0]
            return self.complete(donor.taken), "taken over from a kernel shown"
        return self.complete({}), "drawn afresh" if not evidence else "drawn by what was shown"

    def refine(self, start: Attempt, evidence: Sequence[Evidence]) -> tuple[dict[str, str], str]:
        """The start point's decisions, or those of a faster kernel of its kind, with a few changed; now and then a fresh draw."""
        sketch, taken = decisions_in(start.candidate.code, self.belief.hints)
        if self.random.random() < UNIFORM:
            return self.complete({}), "drawn afresh, to explore"
        profile = start.outcome.profile
        remedies = self.belief.hints.remedy(profile)
        why = f"refined {start.id}" + (f", bound by {profile.bottleneck}" if profile and profile.bottleneck else "")
        kept = taken if sketch in (self.operator.sketch, "") else {}
        level = next((e.gain for e in evidence if e.is_feasible and e.taken == taken), 0.0)
        faster = [e for e in evidence if e.is_feasible and e.weight == SAME and e.gain > level + MARGIN]
        if faster and self.random.random() < CROSS:
            donor = self.random.choices(faster, [math.exp(e.gain / self.temperature) for e in faster])[0]
            kept, why = dict(donor.taken), f"{why}, after a faster kernel"
        changed = self.change(kept, remedies)
        for share in FURTHER:
            if self.random.random() < share:
                changed = self.change({**kept, **changed}, remedies)
        return changed, why

    def change(self, taken: Mapping[str, str], remedies: Mapping[str, str]) -> dict[str, str]:
        """One decision taken otherwise; which one depends on what promises most, and on what the bottleneck calls for."""
        valid = self.complete(taken)
        asked = [d for d in self.decisions if d.name in valid and d.when(valid) and valid[d.name] in d.options and len(d.options) > 1]
        factor = {**dict.fromkeys(self.belief.hints.minor, MINOR), **dict.fromkeys(remedies, REMEDY)}
        weights = [self.promise(d, valid[d.name]) * factor.get(d.name, 1.0) for d in asked]
        decision = self.random.choices(asked, weights)[0]
        others = onward(decision.options, valid[decision.name], remedies.get(decision.name, ""))
        return self.complete({**taken, **valid, decision.name: self.pick(decision.name, others)})

    def promise(self, decision: Decision, now: str) -> float:
        """How much better the best other option may be than the present one, and how much the decision was seen to matter."""
        best = max(self.belief.score(decision.name, o) for o in decision.options if o != now)
        better = max(-3.0, min(3.0, best - self.belief.score(decision.name, now)))
        return self.belief.impact(decision.name, decision.options) * math.exp(better / self.temperature)

    def complete(self, taken: Mapping[str, str]) -> dict[str, str]:
        """All decisions that arise, in order: those taken are kept where they are possible, the others drawn."""
        result: dict[str, str] = {}
        for decision in self.decisions:
            if decision.name not in result and decision.when(result):
                kept = taken.get(decision.name, "")
                result[decision.name] = kept if kept in decision.options else self.pick(decision.name, decision.options)
        return result

    def pick(self, name: str, options: Sequence[str]) -> str:
        """An option by its score, with a share spread evenly."""
        weights = [math.exp(self.belief.score(name, option) / self.temperature) for option in options]
        total = sum(weights)
        return self.random.choices(options, [(1 - UNIFORM) * w / total + UNIFORM / len(options) for w in weights])[0]


def onward(options: Sequence[str], now: str, direction: str) -> tuple[str, ...]:
    """The other options; only those after or before the present one where a remedy says `up` or `down` and there are any."""
    at = options.index(now)
    side = options[at + 1 :] if direction == "up" else options[:at] if direction == "down" else ()
    return tuple(side) or tuple(o for o in options if o != now)


def decisions_line(code: str) -> str:
    """The decisions of a kernel as `line_of` writes them."""
    sketch, taken = decisions_in(code)
    return " ".join([sketch, *(f"{name}={option}" for name, option in taken.items())])


plugin = Sweep
