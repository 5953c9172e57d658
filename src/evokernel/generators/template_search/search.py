"""Chooses decisions: a draft samples all of them, uniformly if there is no evidence; a refinement changes a few of a kernel's."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from evokernel.core.labels import format_attempt
from evokernel.core.records import Attempt
from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.evidence import Evidence, PartnerKernel, StageChoices, read_decisions
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.prior import UNIFORM_PRIOR, Prior
from evokernel.generators.template_search.search_space import KERNEL, DecisionGroup, KernelDecisions, SearchSpace

ChoiceSource = Callable[[DecisionGroup], Mapping[str, str]]
"""Gives the options of a group that are fixed; the other options are sampled."""

UNIFORM = 0.1
"""Share of the probability that is spread evenly over all options, so that none is out of reach."""
REUSE = 0.8
"""Probability that a draft reuses the decisions of a correct kernel it was shown."""
CROSSOVER, MIN_LEAD = 0.5, 0.1
"""Probability that a refinement starts from a faster kernel it knows, and the lead in log speed that kernel needs."""
FURTHER_CHANGES = (0.5, 0.3)
"""Probability of a second and of a third change in one refinement."""
START_BONUS = 2.0
"""Score of an option that the prior names to try first."""
REMEDY, MINOR = 4.0, 0.1
"""Weight of a change that addresses the bottleneck, and of a change that seldom affects speed; other changes have weight 1."""


class DecisionSearch:
    """Chooses the decisions of one task's kernels from the scores of an option model."""

    def __init__(
        self,
        space: SearchSpace,
        model: OptionModel,
        random: Random,
        temperature: float,
        prior: Prior = UNIFORM_PRIOR,
        find_tuned: Callable[[KernelDecisions], Collection[tuple[int, str]]] = lambda decisions: (),
    ) -> None:
        self.space, self.model, self.random, self.temperature = space, model, random, temperature
        self.prior, self.find_tuned = prior, find_tuned
        """`find_tuned` returns group and name of the decisions that a tuner chooses; a refinement changes others."""

    def draft(self, evidence: Sequence[Evidence]) -> tuple[KernelDecisions, str]:
        """Decisions for a new kernel, and where they come from.

        Each stage reuses the decisions of a correct kernel, one for the same task if possible, or samples new ones.
        """
        correct = [e for e in evidence if e.is_feasible]
        same_task = [e for e in correct if e.is_same_task]
        reused_families: list[str] = []

        def source(group: DecisionGroup) -> Mapping[str, str]:
            donors = evidence_for_family(same_task, group.family) or evidence_for_family(correct, group.family)
            if not donors or self.random.random() >= REUSE:
                return {}
            donor = self.random.choices(donors, [math.exp(e.gain / self.temperature) for e in donors])[0]
            reused_families.append(group.family)
            return self.random.choice([choice for family, choice in donor.stages if family == group.family])

        decisions = self.complete(source)
        if reused_families:
            return decisions, f"reused from kernels shown ({', '.join(dict.fromkeys(reused_families))})"
        return decisions, "sampled from the evidence shown" if evidence else "sampled without evidence"

    def draft_first(self) -> tuple[KernelDecisions, str] | None:
        """The first kernel of a task: the options that the prior names, sampled where it names none; None without a prior."""
        if not self.prior.start:
            return None
        return self.complete(lambda group: {}, prefers_start=True), "options to try first"

    def refine(self, start: Attempt, evidence: Sequence[Evidence], cause: str = "") -> tuple[KernelDecisions, str]:
        """The start point's decisions, or those of a faster kernel, with a few changes; sometimes a new sample. And the reason.

        `cause` is the cause of latency to address; empty: the bottleneck.
        """
        hints, profile = self.model.hints, start.outcome.profile
        stages = read_decisions(start.candidate.code, hints)
        if self.random.random() < UNIFORM:
            return self.complete(lambda group: {}), "sampled anew, to explore"
        reason = f"refined {format_attempt(start.id)}" + (f", bound by {profile.bottleneck}" if profile and profile.bottleneck else "")
        start_gain = next((e.gain for e in evidence if e.is_feasible and e.stages == stages), 0.0)
        families = {stage.pattern.family for plan in self.space.plans.values() for stage in plan.stages}
        faster = [e for e in evidence if e.is_feasible and e.gain > start_gain + MIN_LEAD and families & {family for family, _ in e.stages}]
        if faster and self.random.random() < CROSSOVER:
            donor = self.random.choices(faster, [math.exp(e.gain / self.temperature) for e in faster])[0]
            stages, reason = merge_choices(stages, donor), f"{reason}, with decisions of a faster kernel"
        remedies = hints.find_remedies(profile, cause)
        decisions = self.change_decision(self.complete(RecordedChoices(stages)), remedies)
        for probability in FURTHER_CHANGES:
            if self.random.random() < probability:
                decisions = self.change_decision(decisions, remedies)
        return decisions, reason

    def recombine(self, start: Attempt, partner: PartnerKernel) -> tuple[KernelDecisions, str]:
        """Uniform crossover: each decision comes from the start point or from the second kernel, by chance. And the reason."""
        stages = cross_choices(read_decisions(start.candidate.code, self.model.hints), partner, self.random)
        return self.complete(RecordedChoices(stages)), f"combined {format_attempt(start.id)} with a second kernel"

    def change_decision(self, decisions: KernelDecisions, remedies: Mapping[str, str]) -> KernelDecisions:
        """The same decisions with one changed; those with a high promise and those that address the bottleneck are likelier."""
        groups = [self.space.kernel_decisions(), *self.space.stage_decisions(decisions.kernel)]
        choices = [decisions.kernel, *(choice for _, choice in decisions.stages)]
        changeable = [
            (i, group.family, d)
            for i, (group, choice) in enumerate(zip(groups, choices))
            for d in group.decisions
            if d.name in choice
            and d.when(choice)
            and choice[d.name] in d.options
            and len(self.prior.list_right_options(group.family, d)) > 1
        ]
        tuned = self.find_tuned(decisions)
        changeable = [entry for entry in changeable if (entry[0], entry[2].name) not in tuned] or changeable
        if not changeable:
            return decisions
        factor = {**dict.fromkeys(self.model.hints.minor, MINOR), **dict.fromkeys(remedies, REMEDY)}
        weights = [self.estimate_promise(family, d, choices[i][d.name]) * factor.get(d.name, 1.0) for i, family, d in changeable]
        i, family, decision = self.random.choices(changeable, weights)[0]
        options = self.prior.list_right_options(family, decision)
        others = alternative_options(options, choices[i][decision.name], remedies.get(decision.name, ""))
        new_choice = {**choices[i], decision.name: self.sample_option(family, decision.name, others)}
        stages = [(group.family, new_choice if j == i else choice) for j, (group, choice) in enumerate(zip(groups, choices))]
        return self.complete(RecordedChoices(tuple(stages)))

    def estimate_promise(self, family: str, decision: Decision, current: str) -> float:
        """How much better the best other option may be than the current one, times how much the decision affected speed so far."""
        options = self.prior.list_right_options(family, decision)
        best = max(self.model.score_option(family, decision.name, o) for o in options if o != current)
        lead = max(-3.0, min(3.0, best - self.model.score_option(family, decision.name, current)))
        return self.model.estimate_impact(family, decision.name, decision.options) * math.exp(lead / self.temperature)

    def complete(self, source: ChoiceSource, prefers_start: bool = False) -> KernelDecisions:
        """All decisions that apply, in order: options from the source if they are possible, sampled ones otherwise."""
        kernel_group = self.space.kernel_decisions()
        kernel = self.choose_options(kernel_group, source(kernel_group), prefers_start)
        groups = self.space.stage_decisions(kernel)
        return KernelDecisions(kernel, tuple((group.family, self.choose_options(group, source(group), prefers_start)) for group in groups))

    def choose_options(self, group: DecisionGroup, fixed: Mapping[str, str], prefers_start: bool = False) -> dict[str, str]:
        """An option for each decision of a group that applies: the fixed one if it is possible, otherwise a sampled one.

        With `prefers_start`, the prior's first option replaces the sampled one.
        """
        choice: dict[str, str] = {}
        for decision in group.decisions:
            if decision.name not in choice and decision.when(choice):
                options = self.prior.list_right_options(group.family, decision)
                option = fixed.get(decision.name, "") or (self.find_first_option(group, decision, choice) if prefers_start else "")
                choice[decision.name] = option if option in options else self.sample_option(group.family, decision.name, options)
        return choice

    def find_first_option(self, group: DecisionGroup, decision: Decision, choice: Choice) -> str:
        """The option to try first: the one that suits the sizes, or else the prior's."""
        option = group.fit_option(decision, choice)
        return option if option in decision.options else self.prior.find_start(group.family, decision)

    def sample_option(self, family: str, name: str, options: Sequence[str]) -> str:
        """An option sampled by score, with a uniform share."""
        start = self.prior.find_start(family, Decision(name, tuple(options)))
        scores = [self.model.score_option(family, name, option) + (START_BONUS if option == start else 0.0) for option in options]
        weights = [math.exp(score / self.temperature) for score in scores]
        total = sum(weights)
        return self.random.choices(options, [(1 - UNIFORM) * w / total + UNIFORM / len(options) for w in weights])[0]


class RecordedChoices:
    """A choice source: the decisions of an existing kernel, whose stages of one family are used in order."""

    def __init__(self, stages: StageChoices) -> None:
        self.stages, self.used = stages, set[int]()

    def __call__(self, group: DecisionGroup) -> Choice:
        """The first unused choice for this family, or the last one if all are used; otherwise what code without a decision line shows."""
        matches = [i for i, (family, _) in enumerate(self.stages) if family == group.family]
        if unused := [i for i in matches if i not in self.used]:
            self.used.add(unused[0])
            return self.stages[unused[0]][1]
        if matches:
            return self.stages[matches[-1]][1]
        return next((choice for family, choice in self.stages if not family), {})


def evidence_for_family(evidence: Sequence[Evidence], family: str) -> list[Evidence]:
    """Kernels with a stage of this family; decisions about the complete kernel count only if they are for the same task."""
    return [e for e in evidence if any(s == family for s, _ in e.stages) and (family != KERNEL or e.is_same_task)]


def merge_choices(stages: StageChoices, donor: Evidence) -> StageChoices:
    """The donor's decisions for its families, and the others from `stages`.

    Decisions about the complete kernel come from the donor only if it is for the same task.
    """
    donated = tuple((family, choice) for family, choice in donor.stages if donor.is_same_task or family != KERNEL)
    families = {family for family, _ in donated}
    return (*donated, *((family, choice) for family, choice in stages if family not in families))


def cross_choices(stages: StageChoices, partner: PartnerKernel, random: Random) -> StageChoices:
    """The decisions of both kernels, stage by stage: what both decide comes from either, by chance; the rest from the one that has it.

    Decisions about the complete kernel are crossed only if both kernels are for the same task.
    """
    donated = [(family, choice) for family, choice in partner.stages if partner.is_same_task or family != KERNEL]
    crossed = []
    for family, choice in stages:
        match = next((place for place, (other, _) in enumerate(donated) if other == family), None)
        other = donated.pop(match)[1] if match is not None else {}
        taken = {name: option for name, option in other.items() if name not in choice or random.random() < 0.5}
        crossed.append((family, {**choice, **taken}))
    own_families = {family for family, _ in stages}
    return (*crossed, *((family, choice) for family, choice in donated if family not in own_families))


def alternative_options(options: Sequence[str], current: str, direction: str) -> tuple[str, ...]:
    """The other options; only those after or before the current one if a remedy says `up` or `down` and there are any."""
    if current not in options:
        return tuple(options)
    at = options.index(current)
    side = options[at + 1 :] if direction == "up" else options[:at] if direction == "down" else ()
    return tuple(side) or tuple(o for o in options if o != current)
