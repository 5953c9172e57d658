"""Base of the generators that send prompts: they share the writing of candidates and the optional steps around it.

The steps are a plan before the code, a critic that proposes one change, and repairs of a file that a compiler or a rule refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from evokernel.core.records import Candidate, Context, Outcome, Reply, Step, Task
from evokernel.core.state import State
from evokernel.generators import plans, prompt_text, step_prompts
from evokernel.generators.prompting import PromptBuilder
from evokernel.llm.client import Completion

MAX_REPAIRS = 10
MAX_ERROR_CHARS = 600
UNFINISHED_REPLIES = {
    "length": "the model reached its token limit before the reply was complete",
    "content_filter": "the service filtered the reply",
}


class PromptedGenerator(ABC):
    """`plan`: before refining, the model proposes three plans with predicted gains, and the most promising one is written. `critic`: a call
    reads kernel, profile and feedback and proposes one change. `repair_attempts`: corrections of a refused file within one attempt.
    `prompt_variants`: sections of the prompt are shown in different ways, and the ways that earn more are shown more often.
    """

    def __init__(
        self, prompts: PromptBuilder, *, plan: bool = False, critic: bool = False, repair_attempts: int = 0, prompt_variants: bool = False
    ) -> None:
        if not 0 <= repair_attempts <= MAX_REPAIRS:
            raise ValueError(f"repair_attempts must be between 0 and {MAX_REPAIRS}, not {repair_attempts}")
        self.prompts, self.repair_attempts = prompts, repair_attempts
        self.prompt_variants = prompts.list_variants() if prompt_variants else {}
        self.steps = tuple(name for name, is_on in (("plan", plan), ("critic", critic)) if is_on)

    @abstractmethod
    def complete(self, prompt: str, key: str) -> Completion:
        """Send one prompt; `key` is the attempt's id, with `/plan` and the like for a step. Raises InfraError if no reply comes."""

    def write(self, state: State, context: Context) -> Reply:
        """A candidate from the reply; if the reply has no code, an empty candidate with the reason in its notes."""
        prompt = self.prompts.build_prompt(state, context)
        completion = self.complete(prompt.text, state.next_id + context.draft_suffix)
        candidate = self.parse_candidate(completion, state)
        return Reply(
            candidate=candidate,
            prompt=prompt.text,
            text=replace_surrogates(completion.text),
            truncated_items=prompt.omitted_ids,
            prompt_variants=prompt.variants,
        )

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None, unless a generator overrides it."""
        return None

    def take_step(self, name: str, state: State, context: Context) -> Reply | None:
        """A plan for the start point, or the critic's change; None if there is no kernel to base it on."""
        build_prompt = {"plan": step_prompts.build_plan_prompt, "critic": step_prompts.build_critic_prompt}[name]
        prompt = build_prompt(self.prompts, state, context)
        if not prompt:
            return None
        completion = self.complete(prompt, f"{state.next_id}/{name}")
        step = plans.parse_plans(completion.text, context.start_point) if name == "plan" else plans.parse_change(completion.text)
        return self.step_reply(prompt, completion, step, Candidate(backend=self.prompts.backend, files={}))

    def repair(self, state: State, context: Context, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """The corrected file for a candidate that a compiler or a rule refused; None if the attempt has no repairs left."""
        number = 1 + sum(step.name == "repair" for step in context.steps)
        if number > self.repair_attempts:
            return None
        prompt = step_prompts.build_repair_prompt(self.prompts, state, context, candidate, outcome)
        completion = self.complete(prompt, f"{state.next_id}/repair-{number}")
        detail = prompt_text.shorten_detail(outcome, MAX_ERROR_CHARS)
        step = Step(name="repair", text=f"The candidate {prompt_text.describe_outcome(outcome)}.\n{detail}".strip())
        return self.step_reply(prompt, completion, step, self.parse_candidate(completion, state))

    def count_optimisations(self, task: Task, candidate: Candidate) -> int | None:
        """None: the model finds the optimisations of a kernel itself."""
        return None

    def rewind(self, state: State, context: Context) -> Reply:
        """The start point without one optimisation, which the notes name; a reply without code gives an empty candidate."""
        prompt = step_prompts.build_rewind_prompt(self.prompts, state, context)
        completion = self.complete(prompt, state.next_id)
        return Reply(candidate=self.parse_candidate(completion, state), prompt=prompt, text=replace_surrogates(completion.text))

    def step_reply(self, prompt: str, completion: Completion, step: Step, candidate: Candidate) -> Reply:
        """The reply of a step, which carries the cost of its call."""
        step = step.model_copy(update={"text": replace_surrogates(step.text), "usage": completion.usage})
        return Reply(candidate=candidate, prompt=prompt, text=replace_surrogates(completion.text), step=step)

    def parse_candidate(self, completion: Completion, state: State) -> Candidate:
        """The candidate in a completion; its notes say why if there is none."""
        candidate = self.prompts.parse_candidate(completion.text, state.task, completion.usage)
        if candidate.files or completion.finish_reason not in UNFINISHED_REPLIES:
            return candidate
        return candidate.model_copy(update={"notes": f"{UNFINISHED_REPLIES[completion.finish_reason]}; {candidate.notes}"})


def replace_surrogates(text: str) -> str:
    """The text without unpaired surrogates, which cannot be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")
