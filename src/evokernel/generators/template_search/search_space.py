"""The search space of a task on one backend: the plans that compute it, and the open decisions of each stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from evokernel.core.records import Signature, Task
from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects import Dialect, get_dialect
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.graph_reader import cached_graph
from evokernel.generators.template_search.stage_planner import FUSION_MODES, Plan, plan_stages
from evokernel.reference.program_cache import checking_constants

KERNEL = "kernel"
"""The family name of the decisions that concern the complete kernel and no stage in particular."""


@dataclass(frozen=True)
class DecisionGroup:
    """The open decisions of one stage, or of the complete kernel."""

    family: str
    decisions: tuple[Decision, ...]
    fit_option: Callable[[Decision, Choice], str] = lambda decision, choice: ""
    """The option that suits the sizes, given earlier choices; empty if the sizes say nothing."""


@dataclass(frozen=True)
class KernelDecisions:
    """The options chosen for a kernel: those of the complete kernel, then those of each stage with its family."""

    kernel: Choice
    stages: tuple[tuple[str, Choice], ...]

    @property
    def line(self) -> str:
        """All decisions in one line, as the comment header of the code records them."""
        groups = [(KERNEL, self.kernel)] if self.kernel else []
        return " | ".join(" ".join([name, *(f"{k}={v}" for k, v in choice.items())]) for name, choice in (*groups, *self.stages))


@dataclass(frozen=True)
class SearchSpace:
    """A task's plans by fusion mode; modes that lead to the same plan are listed once."""

    dialect: Dialect
    signature: Signature
    plans: dict[str, Plan]

    def kernel_decisions(self) -> DecisionGroup:
        """The decisions about the complete kernel: fusion, if there is a choice, and those of the dialect."""
        has_buffers = any(not stage.out.is_output for plan in self.plans.values() for stage in plan.stages)
        traits = {"buffers"} if has_buffers else set()
        fuse = (Decision("fuse", tuple(self.plans)),) if len(self.plans) > 1 else ()
        return DecisionGroup(KERNEL, (*fuse, *applicable_decisions(self.dialect.kernel_decisions, frozenset(traits))))

    def select_plan(self, kernel_choice: Choice) -> Plan:
        """The plan that the decisions about the complete kernel select."""
        return self.plans[kernel_choice.get("fuse", next(iter(self.plans)))]

    def stage_decisions(self, kernel_choice: Choice) -> list[DecisionGroup]:
        """The decisions of every stage of the selected plan."""
        groups = []
        for stage in self.select_plan(kernel_choice).stages:
            family, description = stage.pattern.family, self.dialect.describe(stage.pattern)
            decisions = applicable_decisions(self.dialect.templates[family].decisions, description.traits)
            groups.append(DecisionGroup(family, decisions, partial(self.dialect.fit_option, stage)))
        return groups

    def render_kernel(self, decisions: KernelDecisions) -> str:
        """The source code of the kernel with these decisions."""
        stage_choices = [choice for _, choice in decisions.stages]
        return self.dialect.render_kernel(
            self.signature, self.select_plan(decisions.kernel), decisions.line, decisions.kernel, stage_choices
        )


def applicable_decisions(decisions: tuple[Decision, ...], traits: frozenset[str]) -> tuple[Decision, ...]:
    """The decisions that apply to a pattern with these traits."""
    return tuple(d for d in decisions if (not d.trait or d.trait in traits) and (not d.excluded_by or d.excluded_by not in traits))


def build_search_space(task: Task, backend: str) -> SearchSpace:
    """The search space of a task; raises UnsupportedPattern with a short description of what the templates do not cover."""
    space = cached_search_space(task.source, task.id, checking_constants(task), task.signature.model_dump_json(), backend)
    if isinstance(space, str):
        raise UnsupportedPattern(space)
    return space


@lru_cache(maxsize=256)
def cached_search_space(source: str, name: str, small: tuple[tuple[str, int], ...], signature_json: str, backend: str) -> SearchSpace | str:
    """The search space, or the reason why there is none."""
    graph = cached_graph(source, name, small)
    if isinstance(graph, str):
        return graph
    signature = Signature.model_validate_json(signature_json)
    dialect, reason = get_dialect(backend), ""
    plans: dict[str, Plan] = {}
    for fuse in FUSION_MODES:
        try:
            plan = plan_stages(graph, tuple(o.name for o in signature.outputs), fuse, dialect.describe, dialect.prefers_fused)
        except UnsupportedPattern as error:
            reason = reason or str(error)
            continue
        if plan.outline not in {p.outline for p in plans.values()}:
            plans[fuse] = plan
    return SearchSpace(dialect, signature, plans) if plans else reason
