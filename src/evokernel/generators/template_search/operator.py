"""A task in a dialect: the ways it can be cut into stages, and everything each of them leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from evokernel.core.records import Signature, Task
from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects import Dialect, dialect_of
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.graph_reader import graph_of_text
from evokernel.generators.template_search.stage_planner import FUSE, Plan, plan
from evokernel.reference.program import checking

WHOLE = "kernel"
"""The part of a kernel's decisions that concern no stage in particular."""


@dataclass(frozen=True)
class Part:
    """What one stage, or the kernel as a whole, leaves open."""

    sketch: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Taken:
    """Decisions taken: for the kernel as a whole, then stage by stage, each with its sketch."""

    whole: Choice
    stages: tuple[tuple[str, Choice], ...]

    @property
    def line(self) -> str:
        """In one line, as the code carries them."""
        parts = [(WHOLE, self.whole)] if self.whole else []
        return " | ".join(" ".join([name, *(f"{k}={v}" for k, v in taken.items())]) for name, taken in (*parts, *self.stages))


@dataclass(frozen=True)
class Operator:
    """A task's plans by how far they fuse; ways that come to the same are listed once."""

    dialect: Dialect
    signature: Signature
    plans: dict[str, Plan]

    def whole(self) -> Part:
        """What concerns the kernel as a whole: fusion, where there is a choice, and what the dialect leaves open."""
        between = any(not stage.out.is_output for plan in self.plans.values() for stage in plan.stages)
        traits = {"buffers"} if between else set()
        fuse = (Decision("fuse", tuple(self.plans)),) if len(self.plans) > 1 else ()
        return Part(WHOLE, (*fuse, *opened(self.dialect.shared, frozenset(traits))))

    def plan(self, whole: Choice) -> Plan:
        """The plan these decisions lead to."""
        return self.plans[whole.get("fuse", next(iter(self.plans)))]

    def parts(self, whole: Choice) -> list[Part]:
        """What the stages leave open."""
        return [self.part(stage.form.family, i, whole) for i, stage in enumerate(self.plan(whole).stages)]

    def part(self, family: str, i: int, whole: Choice) -> Part:
        """What one stage leaves open."""
        described = self.dialect.describe(self.plan(whole).stages[i].form)
        return Part(family, opened(self.dialect.sketches[family].decisions, described.traits))

    def render(self, taken: Taken) -> str:
        """The kernel's text for these decisions."""
        choices = [choice for _, choice in taken.stages]
        return self.dialect.render(self.signature, self.plan(taken.whole), taken.line, taken.whole, choices)


def opened(decisions: tuple[Decision, ...], traits: frozenset[str]) -> tuple[Decision, ...]:
    """The decisions that traits leave open."""
    return tuple(d for d in decisions if (not d.trait or d.trait in traits) and (not d.without or d.without not in traits))


def operator(task: Task, backend: str) -> Operator:
    """A task in a backend's dialect; raises NoSketch, saying in a few words what is not covered."""
    found = known(task.source, task.id, checking(task), task.signature.model_dump_json(), backend)
    if isinstance(found, str):
        raise NoSketch(found)
    return found


@lru_cache(maxsize=256)
def known(source: str, name: str, small: tuple[tuple[str, int], ...], signature: str, backend: str) -> Operator | str:
    """The operator, or why there is none."""
    graph = graph_of_text(source, name, small)
    if isinstance(graph, str):
        return graph
    called = Signature.model_validate_json(signature)
    dialect, gap = dialect_of(backend), ""
    plans: dict[str, Plan] = {}
    for fuse in FUSE:
        try:
            found = plan(graph, tuple(o.name for o in called.outputs), fuse, dialect.describe)
        except NoSketch as reason:
            gap = str(reason)
            continue
        if found.outline not in {p.outline for p in plans.values()}:
            plans[fuse] = found
    return Operator(dialect, called, plans) if plans else gap
