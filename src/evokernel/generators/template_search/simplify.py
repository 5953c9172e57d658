"""Removes the tuning of a kernel one decision at a time: each decision in turn is set to its plain option.

Dialects list the plain option of a decision first. Where another option is simpler, the verified latencies say so: rewinding keeps only
kernels that are slower. Tunables keep their values and are no constants any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evokernel.core.records import Candidate, Task
from evokernel.generators.template_search.declared_tunables import declare_tunables
from evokernel.generators.template_search.evidence import DECISION_LINE, TUNED_CONSTANT, parse_decisions, resolve_constants
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.search import ChoiceSource, RecordedChoices
from evokernel.generators.template_search.search_space import DecisionGroup, KernelDecisions, SearchSpace, build_search_space


class SimplerKernel(NamedTuple):
    """A kernel with one decision set to its plain option."""

    removed: str
    """The option that it lacks, and the plain one: `map simd=vec instead of simd=auto`."""
    code: str


def list_simpler_kernels(task: Task, candidate: Candidate) -> list[SimplerKernel]:
    """All kernels that differ from a kernel of this generator in one decision; none for a kernel that the templates do not reproduce."""
    match = DECISION_LINE.search(candidate.code)
    if match is None:
        return []
    try:
        space = build_search_space(task, candidate.backend)
    except UnsupportedPattern:
        return []
    constants = dict(TUNED_CONSTANT.findall(candidate.code))
    decisions = complete_plainly(space, RecordedChoices(resolve_constants(parse_decisions(match[1]), constants)))
    code = declare_tunables(space, decisions).code if constants else space.render_kernel(decisions)
    if code != candidate.code:
        return []
    kernels: dict[str, SimplerKernel] = {}
    groups = [space.kernel_decisions(), *space.stage_decisions(decisions.kernel)]
    choices = [decisions.kernel, *(choice for _, choice in decisions.stages)]
    for number, (group, choice) in enumerate(zip(groups, choices, strict=True)):
        for decision in group.decisions:
            option, plain = choice.get(decision.name), decision.options[0]
            if option in decision.options and option != plain and decision.when(choice):
                stages = [(g.family, {**c, decision.name: plain} if i == number else c) for i, (g, c) in enumerate(zip(groups, choices))]
                code = space.render_kernel(complete_plainly(space, RecordedChoices(tuple(stages))))
                kernels.setdefault(code, SimplerKernel(f"{group.family} {decision.name}={option} instead of {decision.name}={plain}", code))
    kernels.pop(candidate.code, None)
    return list(kernels.values())


def complete_plainly(space: SearchSpace, source: ChoiceSource) -> KernelDecisions:
    """All decisions that apply, in order: options from the source if they are possible, plain ones otherwise."""
    kernel_group = space.kernel_decisions()
    kernel = choose_plainly(kernel_group, source(kernel_group))
    return KernelDecisions(kernel, tuple((group.family, choose_plainly(group, source(group))) for group in space.stage_decisions(kernel)))


def choose_plainly(group: DecisionGroup, fixed: Mapping[str, str]) -> dict[str, str]:
    """An option for each decision of a group that applies: the fixed one if it is possible, otherwise the plain one."""
    choice: dict[str, str] = {}
    for decision in group.decisions:
        if decision.name not in choice and decision.when(choice):
            option = fixed.get(decision.name, "")
            choice[decision.name] = option if option in decision.options else decision.options[0]
    return choice
