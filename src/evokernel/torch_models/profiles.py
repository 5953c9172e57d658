"""Profiles a model: groups its torch calls by function, shapes, dtypes and other arguments, and ranks them by time.

Times are CPU times for one thread, and wall times for several. They exclude the time for recording and for reading the clock.
The complete model is timed separately, without recording.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from evokernel.core.errors import UserError
from evokernel.reference.module import Reference, Sample
from evokernel.suites.loader import read_source
from evokernel.torch_models.calls import (
    Function,
    InterceptedModule,
    OuterCallMode,
    TorchCall,
    canonical_call,
    computes_new_tensor,
    format_tensor_type,
    storage_id,
)
from evokernel.torch_models.tensor_stats import TensorStats, summarize_tensor

MAX_RUNS, MAX_SECONDS = 5, 30.0
"""Largest number of timed runs, and the time after which no further run starts."""
CLOCK_READS = 101
Clock = Callable[[], float]


@dataclass(frozen=True, eq=False)
class Operator:
    """All calls of a model with the same key."""

    call: TorchCall
    """The first call, with tensors on the meta device."""
    roles: tuple[str, ...]
    """Role of each tensor: `parameter` or `activation`."""
    tensor_stats: tuple[TensorStats, ...]
    """Statistics of each tensor's values."""
    calls: int
    """Number of calls in one run of the model."""
    seconds: float
    """Total time of these calls in one run; median over several runs."""
    share: float
    """Share of the model's time."""

    @property
    def max_model_speedup(self) -> float:
        """Speedup of the model if these calls took no time (Amdahl's law)."""
        return 1 / (1 - self.share) if self.share < 1 else float("inf")

    @property
    def tensor_types(self) -> list[str]:
        """Dtype and shape of each tensor: `float32[64, 32]`."""
        return [format_tensor_type(tensor) for tensor in self.call.tensors]


class ModelProfile(NamedTuple):
    """A model's operators, most expensive first."""

    operators: list[Operator]
    seconds: float
    """Time of the complete model; median over several runs."""
    rest_s: float
    """Part of `seconds` outside of the operators: views, copies, and Python between the calls."""
    runs: int
    """Number of timed runs."""
    threads: int

    @property
    def clock(self) -> str:
        """Clock of the times: `cpu` or `wall`."""
        return "cpu" if self.threads == 1 else "wall"


class CallInfo(NamedTuple):
    """A call with the roles and statistics of its tensors."""

    call: TorchCall
    roles: tuple[str, ...]
    tensor_stats: tuple[TensorStats, ...]


class CallRecorder(OuterCallMode):
    """Records and times every operator that a model calls."""

    def __init__(self, sample: Sample, now: Clock, cost_s: float, inspects: bool) -> None:
        super().__init__()
        self.parameter_storages = {storage_id(tensor) for _, tensor in sample.params if tensor.layout == torch.strided}
        self.now, self.cost_s, self.inspects = now, cost_s, inspects
        self.call_info: dict[str, CallInfo] = {}
        self.calls: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)

    def handle_call(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = canonical_call(func, args, kwargs)
        key = call.key if call else ""
        info = self.inspect_call(call) if call and self.inspects and key not in self.call_info else None
        started_at = self.now()
        result = func(*args, **kwargs)
        duration = self.now() - started_at - self.cost_s
        if call and computes_new_tensor(call, result):
            self.calls[key] += 1
            self.seconds[key] += max(0.0, duration)
            if info:
                self.call_info[key] = info
        return result

    def inspect_call(self, call: TorchCall) -> CallInfo:
        """Return roles and statistics of a call's tensors; used before the call, which may overwrite them."""
        roles = tuple("parameter" if storage_id(tensor) in self.parameter_storages else "activation" for tensor in call.tensors)
        meta_call = replace(call, tensors=tuple(torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for tensor in call.tensors))
        return CallInfo(meta_call, roles, tuple(summarize_tensor(tensor) for tensor in call.tensors))


class ProfiledModel(NamedTuple):
    """A model file: its source, the model, and its time per operator."""

    source: str
    reference: Reference
    profile: ModelProfile


def profile_model(path: Path, seed: int, threads: int = 1, report_progress: Callable[[str], None] = lambda _: None) -> ProfiledModel:
    """Load a model file and profile its operators. Raises UserError if it is not a model, or calls no torch operator."""
    if path.suffix != ".py":
        raise UserError(f"{path} is not a Python file. Name one that defines Model, get_inputs and get_init_inputs.")
    source = read_source(path)
    reference = Reference(source, str(path))
    profile = profile_calls(reference, seed, threads, report_progress)
    if not profile.operators:
        raise UserError(f"{path}: forward calls no torch operator on tensors, so there is nothing to extract.")
    return ProfiledModel(source, reference, profile)


def profile_calls(
    reference: Reference, seed: int, threads: int = 1, report_progress: Callable[[str], None] = lambda _: None
) -> ModelProfile:
    """Run a model once to inspect its calls, then several times alternately with and without recording."""
    sample = reference.sample(seed)
    now: Clock = time.thread_time if threads == 1 else time.perf_counter
    with fixed_threads(threads):
        cost_s = measure_clock_cost(now)
        inspector = CallRecorder(sample, now, cost_s, inspects=True)
        report_progress(f"running {reference.name}")
        reference.run(replace(sample, module=InterceptedModule(sample.module, inspector)))
        model_seconds: list[float] = []
        records: list[CallRecorder] = []
        began = time.perf_counter()
        while len(model_seconds) < MAX_RUNS and (not model_seconds or time.perf_counter() - began < MAX_SECONDS):
            report_progress(f"timing the model, run {len(model_seconds) + 1} of at most {MAX_RUNS}")
            model_seconds.append(time_call(reference.baseline_call(sample), now))
            records.append(CallRecorder(sample, now, cost_s, inspects=False))
            reference.baseline_call(sample, InterceptedModule(sample.module, records[-1]))()
    return summarize_runs(inspector, records, median(model_seconds), threads)


def summarize_runs(inspector: CallRecorder, records: list[CallRecorder], model_s: float, threads: int) -> ModelProfile:
    """Return the medians of several runs, most expensive operators first."""
    seconds = {key: median(record.seconds[key] for record in records) for key in inspector.call_info}
    total = max(model_s, sum(seconds.values()))  # separate runs, so the sum of the operators can exceed the time of the model
    operators = [
        Operator(*info, calls=inspector.calls[key], seconds=seconds[key], share=seconds[key] / total if total else 0.0)
        for key, info in inspector.call_info.items()
    ]
    operators.sort(key=lambda operator: -operator.seconds)
    return ModelProfile(operators, total, total - sum(seconds.values()), len(records), threads)


def time_call(call: Callable[[], object], now: Clock) -> float:
    """Return the duration of one call in seconds."""
    began = now()
    call()
    return now() - began


def measure_clock_cost(now: Clock) -> float:
    """Return the time that reading the clock takes."""
    return median(time_call(lambda: None, now) for _ in range(CLOCK_READS))


@contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """Use a fixed number of threads, without fused fast paths for complete layers, which torch disables during recording anyway."""
    before, fast = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    torch.set_num_threads(threads)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.backends.mha.set_fastpath_enabled(fast)
