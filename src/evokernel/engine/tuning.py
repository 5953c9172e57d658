"""Tunes a correct kernel: tries other values of the constants that it declares as tunables, and delivers the fastest that passes all gates.

All of it belongs to one attempt and calls no model. Every setting is an ordinary job in the sandbox, timed at the timed size by the clock
that timed the default; where latencies are measured, it is measured alternately with the default. Equal results lead to equal trials: the
order follows from the job's seed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from random import Random
from typing import NamedTuple

from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Executor
from evokernel.core.records import Candidate, Job, Outcome, Tuning, TuningTrial
from evokernel.core.statistics import is_significant
from evokernel.core.tunables import Setting, Tunable, Tunables, read_tunables

log = logging.getLogger(__name__)
MAX_ENUMERATED = 4096
"""Combinations up to which all are listed; of a larger space, settings are drawn."""
BATCH, MAX_DRAWS = 4, 200
"""Settings that are submitted together, and draws in search of a new one. Neither depends on the machine, so that trials repeat."""
MIN_GAIN_OF_EVERY_PAIR = 0.02
"""With too few pairs for an interval, as for a slow kernel, each pair must show this gain."""
MAX_FINALISTS = 2
"""Settings that are verified completely; if none of them passes, the default stays."""


class VerifiedKernel(NamedTuple):
    """A candidate with the values that its attempt delivers, and its outcome."""

    candidate: Candidate
    outcome: Outcome


class SearchEnded(Exception):
    """No further setting may be tried; the text says why, if not because the trials are used up."""


def verify_and_tune(executor: Executor, job: Job) -> VerifiedKernel:
    """Verify a candidate, and tune it if it is correct, declares tunables and the job allows trials."""
    outcome = executor.submit(job).result()
    if not job.tuning_trials or not outcome.feasible or not outcome.latency_us:
        return VerifiedKernel(job.candidate, outcome)
    try:
        tunables = read_tunables(job.candidate.files)
    except CandidateError:  # an executor that skips the screen gate
        return VerifiedKernel(job.candidate, outcome)
    return Tuner(executor, job, outcome, tunables).tune() if tunables.tunables else VerifiedKernel(job.candidate, outcome)


class Tuner:
    """The search over one candidate's tunables."""

    def __init__(self, executor: Executor, job: Job, default: Outcome, tunables: Tunables) -> None:
        self.executor, self.job, self.default_outcome, self.tunables = executor, job, default, tunables
        self.default_us = default.latency_us or 0.0
        self.random = Random(f"{job.seed}/tuning")
        self.trials: list[TuningTrial] = []
        self.scores: dict[tuple[object, ...], float] = {make_key(tunables.default): 1.0}
        """Speed of every setting tried relative to the default; 0 if it failed."""
        self.is_measured = False
        """Whether trials were timed alternately with the default, so that their speed has an interval."""
        self.start_s = time.monotonic()

    def tune(self) -> VerifiedKernel:
        """Search, then verify the fastest settings; the default stays if none is faster and passes all gates."""
        note = ""
        try:
            self.search()
        except SearchEnded as end:
            note = str(end)
        except InfraError as error:
            log.warning("%s: tuning ended early: %s", self.job.task.id, error)
            note = "the machine failed during a trial"
        kernel, chosen = VerifiedKernel(self.job.candidate, self.default_outcome), self.tunables.default
        try:
            for setting in self.list_finalists():
                if verified := self.verify_setting(setting):
                    kernel, chosen, note = verified, setting, ""
                    break
            else:
                note = note or ("no faster setting passed all gates" if self.has_faster_setting() else "no setting is faster")
        except InfraError as error:
            log.warning("%s: the tuned kernel was not verified: %s", self.job.task.id, error)
            note = "the machine failed during the verification of the fastest setting"
        seconds = 0.0 if self.job.clock == "synthetic" else round(time.monotonic() - self.start_s, 2)
        tuning = Tuning(
            default=self.tunables.default,
            chosen=chosen,
            default_us=self.default_us,
            trials=tuple(self.trials),
            seconds=seconds,
            clock=self.default_outcome.clock,
            note=note,
        )
        usage = self.default_outcome.usage if kernel.candidate is self.job.candidate else self.default_outcome.usage + kernel.outcome.usage
        return VerifiedKernel(kernel.candidate, kernel.outcome.model_copy(update={"tuning": tuning, "usage": usage}))

    def search(self) -> None:
        """Try all settings if the trials suffice; else improve one tunable at a time, then restart from random settings."""
        if prod(len(tunable.values) for tunable in self.tunables.tunables) <= MAX_ENUMERATED:
            settings = [setting for setting in list_settings(self.tunables) if make_key(setting) not in self.scores]
            if len(settings) <= self.job.tuning_trials:
                for start in range(0, len(settings), BATCH):
                    self.try_settings(settings[start : start + BATCH])
                return
        self.descend(self.tunables.default)
        while batch := list(islice(self.draw_settings(), BATCH)):
            best_score = max(self.scores.values())
            self.try_settings(batch)
            best = max(batch, key=self.get_score)
            if self.get_score(best) > best_score:
                self.descend(best)

    def descend(self, start: Setting) -> None:
        """Improve one tunable after the other, in random order, until no value of any is faster."""
        current, is_improved = start, True
        while is_improved:
            is_improved = False
            for tunable in self.random.sample(self.tunables.tunables, len(self.tunables.tunables)):
                others = [current | {tunable.name: value} for value in self.order_values(tunable, current)]
                for at in range(0, len(others), BATCH):
                    self.try_settings(others[at : at + BATCH])
                best = max([current, *others], key=self.get_score)
                if self.get_score(best) > self.get_score(current):
                    current, is_improved = best, True

    def order_values(self, tunable: Tunable, setting: Setting) -> list[int | float]:
        """Return the other values of a tunable: the nearest of the declared order first, for trials that end early."""
        at = tunable.values.index(setting[tunable.name])
        return sorted(
            (value for value in tunable.values if value != setting[tunable.name]), key=lambda v: abs(tunable.values.index(v) - at)
        )

    def draw_settings(self) -> Iterator[Setting]:
        """Yield new random settings; end if many draws in a row find none."""
        drawn: set[tuple[object, ...]] = set()
        for _ in range(MAX_DRAWS):
            setting = {tunable.name: self.random.choice(tunable.values) for tunable in self.tunables.tunables}
            key = make_key(setting)
            if key not in self.scores and key not in drawn and self.tunables.is_allowed(setting):
                drawn.add(key)
                yield setting

    def try_settings(self, settings: Sequence[Setting]) -> None:
        """Time the new and allowed ones of these settings. Raises SearchEnded if the trials or the time are used up."""
        new = [setting for setting in settings if make_key(setting) not in self.scores and self.tunables.is_allowed(setting)]
        remaining = self.job.tuning_trials - len(self.trials)
        if new and remaining <= 0:
            raise SearchEnded
        if new and self.job.clock != "synthetic" and time.monotonic() - self.start_s > self.job.tuning_s:
            raise SearchEnded(f"the time for tuning ({self.job.tuning_s:g} s) was used up")
        jobs = [(setting, self.executor.submit(self.make_trial_job(setting))) for setting in new[:remaining]]
        for setting, future in jobs:
            outcome = future.result()
            trial = self.make_trial(setting, outcome)
            self.is_measured = self.is_measured or bool(outcome.incumbent_us)
            self.scores[make_key(setting)] = trial.speedup or 0.0
            self.trials.append(trial)

    def make_trial_job(self, setting: Setting) -> Job:
        """Describe the timing of a setting, next to the default."""
        update = {"candidate": self.make_candidate(setting), "incumbent": self.job.candidate, "purpose": "tuning", "baselines": ()}
        return self.job.model_copy(update={**update, "llm_review": {}, "tuning_trials": 0})

    def make_candidate(self, setting: Setting) -> Candidate:
        """Return the candidate with the values of a setting."""
        files = self.tunables.apply(self.job.candidate.files, setting)
        return self.job.candidate.model_copy(update={"files": files})

    def make_trial(self, setting: Setting, outcome: Outcome, stage: str = "search") -> TuningTrial:
        """Return the record of a setting's outcome."""
        latency_us = outcome.latency_us if outcome.feasible else None
        if not latency_us:
            reason = outcome.failure.reason if outcome.failure else "no_latency"
            return TuningTrial(setting=setting, reason=reason, stage=stage)
        paired = outcome.median_speedup("incumbent") if outcome.incumbent == self.job.candidate.id else None
        return TuningTrial(setting=setting, latency_us=latency_us, speedup=paired or self.default_us / latency_us, stage=stage)

    def get_score(self, setting: Setting) -> float:
        """Return the speed of a setting relative to the default; 0 if it failed or was not tried."""
        return self.scores.get(make_key(setting), 0.0)

    def has_faster_setting(self) -> bool:
        """Whether a trial was faster than the default."""
        return any(score > 1 for score in self.scores.values())

    def list_finalists(self) -> list[Setting]:
        """Return the fastest settings that are faster than the default; among equals the earliest."""
        faster = [trial.setting for trial in self.trials if (trial.speedup or 0.0) > 1]
        return sorted(faster, key=self.get_score, reverse=True)[:MAX_FINALISTS]

    def verify_setting(self, setting: Setting) -> VerifiedKernel | None:
        """Verify a setting through all gates; None if it fails or is not certainly faster than the default.

        The fastest of several measurements was also the luckiest, so a measured one is first measured again.
        """
        if self.is_measured and not self.is_confirmed(setting):
            return None
        candidate = self.make_candidate(setting)
        outcome = self.executor.submit(self.job.model_copy(update={"candidate": candidate})).result()
        self.trials.append(self.make_trial(setting, outcome, "verify"))
        is_slower = not self.is_measured and (outcome.latency_us or 0.0) >= self.default_us
        return None if not outcome.feasible or not outcome.latency_us or is_slower else VerifiedKernel(candidate, outcome)

    def is_confirmed(self, setting: Setting) -> bool:
        """Whether a second measurement next to the default shows the setting to be faster, beyond the noise."""
        job = self.make_trial_job(setting)
        outcome = self.executor.submit(job.model_copy(update={"seed": job.seed + 1, "ignore_cache": True})).result()
        self.trials.append(self.make_trial(setting, outcome, "confirm"))
        if not outcome.feasible:
            return False
        if interval := outcome.speedup_interval("incumbent"):
            return is_significant(interval) and interval[0] > 1
        return min(outcome.paired_speedups("incumbent"), default=0.0) > 1 + MIN_GAIN_OF_EVERY_PAIR


def list_settings(tunables: Tunables) -> Iterator[Setting]:
    """Yield all settings that the constraints allow, in the order of the declarations."""
    names = [tunable.name for tunable in tunables.tunables]
    for values in product(*(tunable.values for tunable in tunables.tunables)):
        setting = dict(zip(names, values))
        if tunables.is_allowed(setting):
            yield setting


def make_key(setting: Setting) -> tuple[object, ...]:
    """Return a setting as a dictionary key."""
    return tuple(sorted(setting.items()))
