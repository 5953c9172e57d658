"""A generator without a model: it fills kernel templates and chooses their tuning options from the evidence in its context.

Words of this package:

- graph: what the PyTorch reference computes, as nodes (elementwise steps, reductions, compute-intensive operators).
- pattern: a part of the graph that one kernel family covers (`map`, `reduce`, `row`, `matmul`, `conv`, ...), split into loops and operands.
- stage: one pattern with the buffer it writes; a plan is the list of stages that computes all outputs.
- template: the code of one kernel family for one backend, with decisions left open; a dialect is the set of templates of a backend.
- decision: a tuning parameter of a template, such as `simd` or `tile`; an option is one of its values.
- trait: a property of a pattern that a decision can require or exclude, such as `strided`.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply, Task
from evokernel.core.state import State, visible_state
from evokernel.generators.template_search.declared_tunables import TunableKernel, declare_tunables
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.evidence import DECISION_LINE, collect_context_text, find_partner, gather_evidence
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.prior import get_prior
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import KernelDecisions, SearchSpace, build_search_space
from evokernel.generators.template_search.simplify import list_simpler_kernels

MAX_DRAWS = 50
"""How often decisions are drawn again when an earlier attempt already used them."""
MAX_CROSSINGS = 20
"""How often two kernels are crossed before the start point is refined alone: kernels that differ little have few descendants."""


class TemplateSearch:
    """Traces the reference, splits it into stages and chooses the options of each stage's template from the evidence shown."""

    run_defaults: ClassVar[dict[str, object]] = {"budget": 5, "stop_when": "gain", "min_expected_gain": 0.22}
    """Settings of a run that names no budget: its first kernels are good, and the first refinement without a gain ends a task."""

    def __init__(
        self, backend: str = "cpp", seed: int = 0, temperature: float = 1.0, tuning_trials: int = 0, prior: str = "expert"
    ) -> None:
        self.dialect = get_dialect(backend)
        if temperature <= 0:
            raise UserError(f"generator.temperature must be above 0, not {temperature:g}")
        self.backend, self.seed, self.temperature = backend, seed, temperature
        self.prior = get_prior(prior, self.dialect.folder)
        self.write_kernel = declare_tunables if tuning_trials else write_plain_kernel
        """With tuning, numeric decisions are left to the tuner."""

    def write(self, state: State, context: Context) -> Reply:
        """A kernel whose decisions depend on the state, the context and the seed alone."""
        try:
            space = build_search_space(state.task, self.backend)
        except UnsupportedPattern as gap:
            notes = f"template_search has no template for {gap}; a model can write this kernel: --generator llm"
            return Reply(candidate=Candidate(backend=self.backend, files={}, notes=notes, is_unsupported=True))
        hints = self.dialect.hints
        evidence = gather_evidence(visible_state(state, context), context, self.backend, hints)
        model = OptionModel(evidence, hints, collect_context_text(context), context.stage)
        random = Random(f"{self.seed}/{state.next_id}{context.draft_suffix}")
        search = DecisionSearch(
            space, model, random, self.temperature, self.prior, lambda decisions: self.write_kernel(space, decisions).tunables
        )
        earlier = [*(a.candidate for a in (state.attempts if context.include_history else ())), *context.drafts]
        earlier_lines = {find_decision_line(candidate.code) for candidate in earlier}
        is_first = not any(find_decision_line(a.candidate.code) for a in state.attempts) and not any(e.is_same_task for e in evidence)
        is_first = is_first and not context.drafts  # the options to try first are drafted once
        partner = find_partner(state, context, self.backend, hints)
        for draw in range(MAX_DRAWS):
            if context.start_point and partner and draw < MAX_CROSSINGS:
                decisions, reason = search.recombine(context.start_point, partner)
            elif context.start_point:
                decisions, reason = search.refine(context.start_point, evidence, context.focus.cause if context.focus else "")
            else:
                decisions, reason = (search.draft_first() if is_first else None) or search.draft(evidence)
            kernel = self.write_kernel(space, decisions)
            if kernel.decisions.line not in earlier_lines:
                break
        notes = f"{reason}: {kernel.notes}"
        candidate = Candidate(backend=self.backend, files={self.dialect.file: kernel.code}, notes=notes)
        return Reply(candidate=candidate, text=f"{notes}\n\n```{self.dialect.fence}\n{kernel.code}```\n")

    def count_optimisations(self, task: Task, candidate: Candidate) -> int | None:
        """How many decisions of a kernel can be set to their plain options."""
        return len(list_simpler_kernels(task, candidate))

    def rewind(self, state: State, context: Context) -> Reply:
        """The start point with one decision set to its plain option; the number of attempts after the first says which."""
        kernels = list_simpler_kernels(state.task, context.start_point.candidate) if context.start_point else []
        number = len(state.attempts) - 1
        if not 0 <= number < len(kernels):
            return Reply(candidate=Candidate(backend=self.backend, files={}, notes="no further decision can be simplified"))
        removed, code = kernels[number]
        return Reply(candidate=Candidate(backend=self.backend, files={self.dialect.file: code}, notes=removed))

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: a kernel's decision line already records what there is to learn."""
        return None


def write_plain_kernel(space: SearchSpace, decisions: KernelDecisions) -> TunableKernel:
    """The kernel without tunables."""
    return TunableKernel(space.render_kernel(decisions), decisions, {})


def find_decision_line(code: str) -> str:
    """The decisions that a kernel's comment header records, or an empty text."""
    match = DECISION_LINE.search(code)
    return match[1] if match else ""


plugin = TemplateSearch
