"""Makes one attempt on a task: chooses a context, generates a kernel, verifies it, and computes its reward.

Only `execute_or_replay` runs in parallel, and it changes no shared state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import tanh
from typing import TypeVar

from evokernel.core.errors import InfraError, StopRun
from evokernel.core.protocols import (
    AttemptTools,
    Executor,
    Generator,
    MemoryReader,
    MemoryStore,
    Policy,
    SteppedGenerator,
    ToolUsingGenerator,
    VariantGenerator,
)
from evokernel.core.records import Attempt, Candidate, Context, ContextRef, GateResult, MemoryItem, Outcome, Reply, Stage, Task, Usage
from evokernel.core.run import Run
from evokernel.core.state import MIN_UNPAIRED_GAIN, State, speed_gain
from evokernel.engine import context_store, drafts, novelty, repairs
from evokernel.engine.jobs import attempt_job, trial_job
from evokernel.engine.prompt_values import PromptValues
from evokernel.engine.surrogate import FittedSurrogate, Surrogate
from evokernel.engine.tuning import VerifiedKernel, verify_and_tune

log = logging.getLogger(__name__)
AnyReply = TypeVar("AnyReply", Reply, Reply | None)
Distiller = Callable[[Task, Attempt, Sequence[Attempt]], list[MemoryItem]]
"""Turns an attempt on a task, with the attempts before it, into memory items."""


class AttemptCancelled(Exception):
    """The attempt did not start because the run is stopping."""


@dataclass
class AttemptMaker:
    """One run: its parts, and the attempts so far."""

    run: Run
    generator: Generator
    policy: Policy
    memory: MemoryStore
    executor: Executor
    distill: Distiller
    notify: Callable[[str, str], None] = lambda task, phase: None
    """Called from any thread when the attempt on a task enters a phase: `write`, `verify`, `repair`, `lesson`, ..., or "" when it waits."""
    clock: Callable[[], float] = time.time
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to finish the attempts in flight and then end the run."""
    stop_reason: str = ""
    last_failure: str = ""
    """Message of the latest infrastructure failure."""
    history: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    memory_views: dict[str, MemoryReader] = field(default_factory=dict)
    """For a generator with tools: memory as it was when a task's context was chosen, by task."""
    surrogate: Surrogate = field(default_factory=Surrogate)
    """Forecasts drafts; it learns only if an attempt has several of them."""
    surrogate_views: dict[str, FittedSurrogate] = field(default_factory=dict)
    """The surrogate as it was when a task's context was chosen, by task."""
    prompt_values: PromptValues = field(default_factory=PromptValues)
    """Values of the variants of prompt sections."""

    def make_state(self, task: Task, round: int) -> State:
        return State(task=task, attempts=tuple(self.history[task.id]), round=round)

    def remaining_attempts(self, task: Task) -> int:
        """Number of attempts that a task still gets."""
        return self.run.config.remaining_attempts(self.history[task.id])

    def choose_context(self, state: State) -> Context:
        """Return the stored context of an attempt that has a stored reply or step, or let the policy choose a new one."""
        if isinstance(self.generator, ToolUsingGenerator):
            self.memory_views[state.task.id] = self.memory.freeze()
        self.surrogate_views[state.task.id] = self.surrogate.fitted
        return context_store.load_context(self.run, state) or self.choose_variants(state, self.policy.choose(state, self.memory))

    def choose_variants(self, state: State, context: Context) -> Context:
        """Choose the variants of the prompt's sections, if the generator has any."""
        if not isinstance(self.generator, VariantGenerator) or not self.generator.prompt_variants:
            return context
        seed = f"{self.run.config.seed}/{state.next_id}/prompt"
        chosen = self.prompt_values.choose(self.generator.prompt_variants, context.stage, seed)
        return context.model_copy(update={"prompt_variants": chosen})

    def learn_own_choices(self, state: State, attempt: Attempt) -> None:
        """Learn what the run chooses itself: among variants of prompts, and among drafts if an attempt has several."""
        if attempt.prompt_variants:
            self.prompt_values.learn(attempt)
        if self.run.config.drafts_per_attempt > 1:
            self.surrogate.learn(state.task, attempt, state.attempts)

    def make_tools(self, state: State) -> AttemptTools:
        """Return what a generator with tools may use in the next attempt on a task."""
        return AttemptTools(partial(self.verify_trial, state), self.memory_views[state.task.id])

    def verify_trial(self, state: State, candidate: Candidate, number: int) -> Outcome:
        """Verify a kernel that the generator tries within its attempt."""
        self.notify(state.task.id, "verify")
        outcome = self.executor.submit(trial_job(self.run.config, state, candidate, number)).result()
        self.notify(state.task.id, "write")
        return outcome

    def execute_or_replay(self, plan: tuple[State, Context | Attempt]) -> Attempt | AttemptCancelled | None:
        """Return the attempt from the journal or make a new one; None if an infrastructure failure cost the task this round."""
        state, choice = plan
        if isinstance(choice, Attempt):
            return choice if choice.round <= state.round else None
        if self.stop.is_set():
            return AttemptCancelled()
        try:
            return self.make_attempt(state, choice)
        except StopRun as limit:
            self.stop_reason = self.stop_reason or str(limit)  # keep the first reason: later ones only follow from the stop
            self.stop.set()
            return AttemptCancelled()
        except InfraError as error:
            if self.stop.is_set():
                return AttemptCancelled()
            self.record_missed_round(state, choice, error)
            return None
        finally:
            self.notify(state.task.id, "")

    def record_missed_round(self, state: State, context: Context, error: InfraError) -> None:
        """Record that an infrastructure failure cost the task this round; the next round verifies a stored reply with this context."""
        log.warning("%s: no attempt in round %d: %s", state.task.id, state.round + 1, error)
        self.run.record_incident(state.task.id, state.round, str(error), self.clock())
        self.last_failure = str(error).rstrip(".")
        if self.run.has_replies(state.next_id):
            context_store.store_context(self.run, state, context)

    def make_attempt(self, state: State, context: Context) -> Attempt:
        """Generate a candidate, verify it, compute the reward and write a lesson."""
        context = self.take_steps(state, context)
        reply = self.generate(state, context)  # G(y | s, c)
        reply, context, (candidate, outcome) = self.verify_and_repair(state, context, reply)  # V(x, y), and the best values of its tunables
        lesson = self.write_lesson(state, candidate, outcome)
        shown_items, truncated_items = split_items(context, reply)
        return Attempt(
            id=state.next_id,
            run=self.run.config.id,
            task=state.task.id,
            round=state.round,
            stage=context.stage,
            start_point=context.start_point and context.start_point.id,
            shown_items=shown_items,
            truncated_items=truncated_items,
            propensity=context.propensity if reply.opened_items is None else None,
            candidate=candidate,
            outcome=outcome,
            reward=compute_reward(context.stage, outcome, state.best),  # Eq. 5 and 6
            lesson=lesson.text if lesson else "",
            steps=context.steps,
            tool_use=reply.tool_use,
            drafts=reply.drafts,
            prompt_variants=reply.prompt_variants,
            focus=context.focus,
            usage=sum_usage(reply, context, outcome, lesson),
            finished_at=self.clock(),
        )

    def load_or_request(self, state: State, name: str, phase: str, request: Callable[[], AnyReply]) -> Reply | AnyReply:
        """Return the stored reply of an interrupted attempt, or a new reply, which is stored at once: no paid call is repeated."""
        if stored_reply := self.run.load_reply(state.next_id, name):
            return stored_reply
        self.notify(state.task.id, phase)
        reply = request()
        if reply:
            self.run.store_reply(state.next_id, name, reply)
        return reply

    def generate(self, state: State, context: Context) -> Reply:
        """Return the generator's candidate, or the stored one of an interrupted attempt."""
        write = self.write_novel if self.run.config.drafts_per_attempt == 1 else self.write_best_draft
        return self.load_or_request(state, "reply", "write", partial(write, state, context))

    def write_novel(self, state: State, context: Context) -> Reply:
        """Return a candidate of the generator that is not too similar to earlier attempts, if it writes one."""
        return novelty.generate_novel(self.generator, state, context, self.run.config.min_novelty)

    def write_best_draft(self, state: State, context: Context) -> Reply:
        """Let the generator write several drafts, each of which is stored, and return the most promising one."""
        replies: list[Reply] = []
        while len(replies) < self.run.config.drafts_per_attempt:
            next_context = context.model_copy(update={"drafts": tuple(reply.candidate for reply in replies)})
            reply = self.load_or_request(state, f"draft-{len(replies) + 1}", "write", partial(self.write_novel, state, next_context))
            if reply.drafts or reply.candidate.is_unsupported:
                return reply  # a recording contains the choice; without a template there is nothing to choose
            replies.append(reply)
        ranked = drafts.forecast_drafts(state, context, replies, self.surrogate_views[state.task.id])
        if self.run.config.draft_filter == "estimate":
            self.notify(state.task.id, "verify")
            ranked = drafts.estimate_drafts(ranked, attempt_job(self.run.config, state, replies[0].candidate), self.executor)
        return drafts.choose_draft(state, context, ranked)

    def take_steps(self, state: State, context: Context) -> Context:
        """Let the generator take its steps before writing, such as a plan, and add them to the context."""
        if not isinstance(self.generator, SteppedGenerator):
            return context
        is_written = any(self.run.load_reply(state.next_id, name) for name in ("reply", "draft-1"))
        for name in self.generator.steps:
            if is_written and self.run.load_reply(state.next_id, name) is None:
                continue  # the candidate exists without this step: no call is worth its cost any more
            reply = self.load_or_request(state, name, name, partial(self.generator.take_step, name, state, context))
            if reply and reply.step:
                context = context.model_copy(update={"steps": (*context.steps, reply.step)})
        return context

    def verify_and_repair(self, state: State, context: Context, reply: Reply) -> tuple[Reply, Context, VerifiedKernel]:
        """Verify a candidate; while a compiler or a rule refuses it, let the generator repair it, as often as its settings allow."""
        for number in count(1):
            repair = self.run.load_reply(state.next_id, f"repair-{number}")
            if repair is None:
                verified = self.verify(state, reply.candidate)
                repair = self.request_repair(state, context, reply.candidate, verified.outcome, f"repair-{number}")
                if repair is None:
                    break
            reply, context = repairs.apply_repair(reply, context, repair)
        return reply, context, verified

    def request_repair(self, state: State, context: Context, candidate: Candidate, outcome: Outcome, name: str) -> Reply | None:
        """Ask for a corrected candidate; None if the failure is no matter for a repair, or if the generator makes no further one."""
        if not isinstance(self.generator, SteppedGenerator) or not repairs.is_repairable(outcome):
            return None
        return self.load_or_request(state, name, "repair", partial(self.generator.repair, state, context, candidate, outcome))

    def verify(self, state: State, candidate: Candidate) -> VerifiedKernel:
        """Verify and tune a candidate; one without code, or too similar to an earlier attempt, fails at the gate `write`.

        A kernel identical to one of an earlier attempt on the task is not verified again.
        """
        if not candidate.files:
            reason = "no_template" if candidate.is_unsupported else "no_code"
            gate = GateResult(gate="write", passed=False, reason=reason, detail=candidate.notes)
            return VerifiedKernel(candidate, Outcome(gates=(gate,)))
        if duplicate := novelty.find_duplicate(candidate, state.attempts, self.run.config.min_novelty):
            return VerifiedKernel(candidate, novelty.duplicate_outcome(duplicate))
        if not self.run.config.tuning_trials and (identical := novelty.find_identical(candidate, state.attempts)):
            return VerifiedKernel(candidate, novelty.reuse_outcome(identical))
        self.notify(state.task.id, "verify")
        job = attempt_job(self.run.config, state, candidate)
        return verify_and_tune(self.executor, job) if job.tuning_trials else VerifiedKernel(candidate, self.executor.submit(job).result())

    def write_lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """Let the generator write a lesson; None if it writes no lessons."""
        return self.load_or_request(state, "lesson", "lesson", lambda: self.generator.lesson(state, candidate, outcome))


def split_items(context: Context, reply: Reply) -> tuple[tuple[ContextRef, ...], tuple[ContextRef, ...]]:
    """Return the memory items that the generator was shown, or that it opened itself, and the context's items that it did not see."""
    refs = [entry.ref for entry in context.items]
    if reply.opened_items is None:
        hidden_ids = set(reply.truncated_items)
        return tuple(ref for ref in refs if ref.id not in hidden_ids), tuple(ref for ref in refs if ref.id in hidden_ids)
    opened_ids = {ref.id for ref in reply.opened_items}
    return reply.opened_items, tuple(ref for ref in refs if ref.id not in opened_ids)


def sum_usage(reply: Reply, context: Context, outcome: Outcome, lesson: Reply | None) -> Usage:
    """Return all model calls of an attempt."""
    parts = [outcome.usage, *(step.usage for step in context.steps), lesson.candidate.usage if lesson else Usage()]
    return sum([*parts, reply.tool_use.usage if reply.tool_use else Usage()], start=reply.candidate.usage)


def compute_reward(stage: Stage, outcome: Outcome, best: Attempt | None) -> float:
    """Return the reward of Eq. 5 while drafting and of Eq. 6 while refining; a speed difference within noise earns 0."""
    if not outcome.feasible:
        return -1.0
    if stage is Stage.DRAFT or best is None:
        return 1.0
    gain = speed_gain(outcome, best)
    is_paired = outcome.incumbent == best.candidate.id and outcome.incumbent_us
    return tanh(gain) if is_paired or abs(gain) > MIN_UNPAIRED_GAIN else 0.0
