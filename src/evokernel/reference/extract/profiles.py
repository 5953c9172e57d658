"""Where a model's time goes: its calls of torch, grouped by function, shapes, types and other arguments, ranked by time.

Times are those of one thread's processor, or wall time where there are several threads; the clock stands still while this module
takes notes, and what reading it costs is taken off. The whole model is timed without anybody looking on.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import torch

from evokernel.reference.extract.calls import Call, Function, Outermost, Watched, call_of, computes, described, storage
from evokernel.reference.extract.tensor_stats import Likeness, likeness
from evokernel.reference.module import Reference, Sample

RUNS, LONGEST_S = 5, 30.0
"""How often a model is timed, and when to stop before that."""
TICKS = 101
Clock = Callable[[], float]


@dataclass(frozen=True, eq=False)
class Operator:
    """All calls of a model that have one key."""

    call: Call
    """The first of them, with tensors that have no values."""
    roles: tuple[str, ...]
    """Of each tensor: `parameter` or `activation`."""
    likenesses: tuple[Likeness, ...]
    calls: int
    seconds: float
    """All calls of one run together: the middle of several runs."""
    share: float
    """Of the model's time."""

    @property
    def bound(self) -> float:
        """How many times as fast the model would be if this took no time (Amdahl)."""
        return 1 / (1 - self.share) if self.share < 1 else float("inf")

    @property
    def shapes(self) -> list[str]:
        return [described(tensor) for tensor in self.call.tensors]


class Profile(NamedTuple):
    """A model's operators, those that take most time first."""

    operators: list[Operator]
    seconds: float
    """The whole model, the middle of several runs."""
    rest_s: float
    """Of these: views, copies, and what Python does between calls."""
    runs: int
    threads: int

    @property
    def clock(self) -> str:
        """What the times are."""
        return "cpu" if self.threads == 1 else "wall"


class Noted(NamedTuple):
    """What a look at a call shows."""

    call: Call
    roles: tuple[str, ...]
    likenesses: tuple[Likeness, ...]


class Recorder(Outermost):
    """Takes down every operator a model calls."""

    def __init__(self, sample: Sample, now: Clock, cost_s: float, looks: bool) -> None:
        super().__init__()
        self.owned = {storage(tensor) for _, tensor in sample.params if tensor.layout == torch.strided}
        self.now, self.cost_s, self.looks = now, cost_s, looks
        self.noted: dict[str, Noted] = {}
        self.calls: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)

    def called(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = call_of(func, args, kwargs)
        key = call.key if call else ""
        seen = self.look(call) if call and self.looks and key not in self.noted else None
        began = self.now()
        result = func(*args, **kwargs)
        took = self.now() - began - self.cost_s
        if call and computes(call, result):
            self.calls[key] += 1
            self.seconds[key] += max(0.0, took)
            if seen:
                self.noted[key] = seen
        return result

    def look(self, call: Call) -> Noted:
        """Before the call: it may overwrite what it is given."""
        roles = tuple("parameter" if storage(tensor) in self.owned else "activation" for tensor in call.tensors)
        bare = replace(call, tensors=tuple(torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for tensor in call.tensors))
        return Noted(bare, roles, tuple(likeness(tensor) for tensor in call.tensors))


def profile(reference: Reference, seed: int, threads: int = 1, told: Callable[[str], None] = lambda _: None) -> Profile:
    """Runs a model once to look at its calls, then several times with and without noting times, in turn."""
    sample = reference.sample(seed)
    now: Clock = time.thread_time if threads == 1 else time.perf_counter
    with fixed(threads):
        cost_s = ticking(now)
        looker = Recorder(sample, now, cost_s, looks=True)
        told(f"running {reference.name}")
        reference.run(replace(sample, module=Watched(sample.module, looker)))
        whole: list[float] = []
        records: list[Recorder] = []
        began = time.perf_counter()
        while len(whole) < RUNS and (not whole or time.perf_counter() - began < LONGEST_S):
            told(f"timing it, {len(whole) + 1} of at most {RUNS}")
            whole.append(timed(reference.baseline(sample), now))
            records.append(Recorder(sample, now, cost_s, looks=False))
            reference.baseline(sample, Watched(sample.module, records[-1]))()
    return summed(looker, records, median(whole), threads)


def summed(looker: Recorder, records: list[Recorder], whole_s: float, threads: int) -> Profile:
    """The middle of several runs, ranked."""
    seconds = {key: median(record.seconds[key] for record in records) for key in looker.noted}
    total = max(whole_s, sum(seconds.values()))  # they were taken in different runs, so that the parts may come to a little more
    operators = [
        Operator(*noted, calls=looker.calls[key], seconds=seconds[key], share=seconds[key] / total if total else 0.0)
        for key, noted in looker.noted.items()
    ]
    operators.sort(key=lambda operator: -operator.seconds)
    return Profile(operators, total, total - sum(seconds.values()), len(records), threads)


def timed(call: Callable[[], object], now: Clock) -> float:
    """Seconds of one call."""
    began = now()
    call()
    return now() - began


def ticking(now: Clock) -> float:
    """What reading the clock costs."""
    return median(timed(lambda: None, now) for _ in range(TICKS))


@contextmanager
def fixed(threads: int) -> Iterator[None]:
    """So many threads, and no shortcuts through whole layers, which are not taken while somebody looks on."""
    before, fast = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    torch.set_num_threads(threads)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.backends.mha.set_fastpath_enabled(fast)
