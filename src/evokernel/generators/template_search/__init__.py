"""A generator without a model: kernels from parametrised sketches, its choices learned from the context it is shown."""

from __future__ import annotations

from random import Random

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply, State
from evokernel.generators.template_search.dialects import dialect_of
from evokernel.generators.template_search.evidence import LINE, gather, words_of
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.operator import Taken, operator
from evokernel.generators.template_search.option_model import Belief
from evokernel.generators.template_search.search import Writer

TRIES = 50


class Sweep:
    """Traces the reference, cuts it into stages and decides, by what was shown, how each is written."""

    def __init__(self, backend: str = "cpp", seed: int = 0, temperature: float = 1.0) -> None:
        self.dialect = dialect_of(backend)
        if temperature <= 0:
            raise UserError(f"generator.temperature must be above 0, not {temperature:g}")
        self.backend, self.seed, self.temperature = backend, seed, temperature

    def write(self, state: State, context: Context) -> Reply:
        """A kernel whose decisions follow from the state, the context and the seed alone."""
        try:
            found = operator(state.task, self.backend)
        except NoSketch as gap:
            return Reply(candidate=Candidate(backend=self.backend, files={}, notes=f"sweep has no sketch for {gap}"))
        hints = self.dialect.hints
        seen = state if context.history else State(task=state.task, round=state.round)
        evidence = gather(seen, context, self.backend, hints)
        belief = Belief(evidence, hints, words_of(context), context.stage)
        writer = Writer(found, belief, Random(f"{self.seed}/{state.next_id}"), self.temperature)
        tried = {line_in(a.candidate.code) for a in seen.attempts}
        taken, why = Taken({}, ()), ""
        for _ in range(TRIES):
            taken, why = writer.refine(context.start_point, evidence) if context.start_point else writer.draft(evidence)
            if taken.line not in tried:
                break
        code = found.render(taken)
        notes = f"{why}: {taken.line}"
        candidate = Candidate(backend=self.backend, files={self.dialect.file: code}, notes=notes)
        return Reply(candidate=candidate, text=f"{notes}\n\n```{self.dialect.fence}\n{code}```\n")

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: what a sweep learns stands in the decisions of its kernels."""
        return None


def line_in(code: str) -> str:
    """The decisions of a kernel as its code carries them."""
    found = LINE.search(code)
    return found[1] if found else ""


plugin = Sweep
