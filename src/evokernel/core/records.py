"""The nouns of the package. Whatever is written to disk or sent to a worker is a Record."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from evokernel.core import statistics
from evokernel.core.statistics import quantile, sum_if_known

Scalar = bool | int | float | str
Settings = dict[str, Scalar | list[Scalar] | list[list[Scalar]] | None]
MemoryKind = Literal["api", "practice", "experience", "trace"]
ItemRole = Literal["start", "child", "trace", "experience", "practice", "bottleneck", "variant", "api"]


class Record(BaseModel):
    """Frozen, closed to unknown fields, equal by value."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Stage(StrEnum):
    """Drafting until something is feasible, refining after that."""

    DRAFT = "draft"
    REFINE = "refine"


class Tensor(Record):
    """One tensor of a signature, at bench size."""

    name: str
    """A valid C and Python identifier."""
    dtype: str
    """`float32`, `float64`, `float16`, `bfloat16`, `int64`, `int32`, `int16`, `int8`, `uint8` or `bool`."""
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * int("".join(filter(str.isdigit, self.dtype)) or 8) // 8


class ScalarArgument(Record):
    """One scalar argument: an input that is no tensor, or a number the module was made with."""

    name: str
    kind: Literal["int", "float", "bool"]
    value: float
    """At bench size; the harness passes the value of the size in force."""


class Signature(Record):
    """What a kernel is called with, in this order: inputs, parameters and buffers, scalars, outputs."""

    inputs: tuple[Tensor, ...]
    params: tuple[Tensor, ...] = ()
    """Parameters, then buffers, as the module registers them."""
    scalars: tuple[ScalarArgument, ...] = ()
    outputs: tuple[Tensor, ...]


class Work(Record):
    """What a perfect kernel has to do at bench size, counted from the reference."""

    flops: float
    bytes: float
    """Inputs and parameters read once, outputs written once."""
    reduction_length: float = 1.0
    """How many terms the longest sum behind one element has."""
    peak_bytes: float = 0.0
    """Bytes alive at once while PyTorch computes it, about; 0 where nobody looked."""


class Task(Record):
    """What to compute (x): reference source, what it is called with, how closely it must be matched."""

    id: str
    """`suite/name`."""
    family: str
    """For example `activation`, `matmul`, `normalisation`: what knowledge and values go by."""
    families: tuple[str, ...] = ()
    """Every kind of operator in it, as they come in the text."""
    category: str = ""
    """What reports group by: as the suite groups its tasks, else the family."""
    level: int = 1
    source: str
    """Python text in KernelBench's format: `Model`, `get_inputs`, `get_init_inputs`."""
    signature: Signature
    work: Work
    sizes: dict[str, dict[str, int]]
    """Overrides of the module's integer constants for `bench` (none), `small` and `held_out`."""
    atol: float = Field(default=1e-4, ge=0)
    """Absolute tolerance, in units of the reference's root mean square."""
    rtol: float = Field(default=1e-4, ge=0)
    tags: tuple[str, ...] = ()


class Usage(Record):
    """What one or more model calls cost. None means the service did not say."""

    model: str = ""
    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """The sum; unknown when either part is unknown, unless it made no call."""
        if not (self.calls and other.calls):
            return self if self.calls else other
        return Usage(
            model=", ".join(dict.fromkeys([*self.model.split(", "), *other.model.split(", ")])),
            calls=self.calls + other.calls,
            input_tokens=sum_if_known(self.input_tokens, other.input_tokens),
            output_tokens=sum_if_known(self.output_tokens, other.output_tokens),
            cost_usd=sum_if_known(self.cost_usd, other.cost_usd),
            seconds=self.seconds + other.seconds,
        )


class Candidate(Record):
    """Kernel source someone wrote for a task (y): file name to text. No files means the reply held none."""

    backend: str
    files: dict[str, str]
    notes: str = ""
    """What the writer says about it; when there are no files, what was wrong with the reply."""
    usage: Usage = Usage()

    @property
    def id(self) -> str:
        text = self.backend + "".join(f"\0{k}\0{v}" for k, v in sorted(self.files.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def code(self) -> str:
        """All files as one text, the way a reader sees them."""
        if len(self.files) == 1:
            return next(iter(self.files.values()))
        return "\n".join(f"// {name}\n{text}" for name, text in sorted(self.files.items()))


class Reply(Record):
    """What a generator gives back; kept before anything is verified, so that a crash never pays twice."""

    candidate: Candidate
    prompt: str = ""
    text: str = ""
    truncated_items: tuple[
        str, ...
    ] = ()  # ids of the context's items that found no room in the prompt: nothing is learned of what nobody saw


class GateResult(Record):
    """One gate's verdict."""

    gate: str
    """`write`, `screen`, `build`, `check`, `sanitize`, `audit` or `time`."""
    passed: bool
    reason: str = ""
    """One stable word for counting: `compile_error`, `mismatch`, `timeout`."""
    detail: str = ""
    """What the next generation is shown."""
    seconds: float = 0.0


class Profile(Record):
    """Where the time goes, in words and figures the refining context can match."""

    bottleneck: str
    """One stable word: `memory`, `compute`, `latency`, `overhead`."""
    summary: str
    """One or two sentences for a reader."""
    figures: dict[str, float] = {}


class Outcome(Record):
    """What the verifier found (o). Gates stop at the first that fails."""

    gates: tuple[GateResult, ...]
    samples_us: tuple[float, ...] = ()
    """Every timing, not only their middle: a reward is only as good as the noise around it."""
    baseline_us: dict[str, tuple[float, ...]] = {}
    """Samples of each baseline, paired with `samples_us` one to one."""
    incumbent_us: tuple[float, ...] = ()
    """Samples of the best kernel before this one, taken in turn with it and paired one to one; none where times are not measured."""
    incumbent: str = ""
    """`Candidate.id` of that kernel."""
    clock: str = ""
    """What the samples are: `cpu` (time charged to the process), `wall`, `synthetic`, or an estimate's name."""
    profile: Profile | None = None
    versions: dict[str, str] = {}
    """Toolchain that judged it."""
    protocol: str = ""
    """How closely it was looked at: `strict` or `paper`."""
    skipped_checks: tuple[str, ...] = ()
    """What this verdict had to do without on the machine it was reached on, one line each: a layer of the sandbox, a sanitizer."""
    usage: Usage = Usage()
    """Model calls of the judge itself."""

    @cached_property
    def latency_us(self) -> float | None:
        return quantile(self.samples_us, 0.25) if self.samples_us else None

    @cached_property
    def noise(self) -> float | None:
        """Relative half-width of the middle half of the samples."""
        low, mid, high = (quantile(self.samples_us, q) for q in (0.25, 0.5, 0.75)) if self.samples_us else (0.0, 0.0, 0.0)
        return (high - low) / 2 / mid if mid > 0 else None

    @property
    def baseline_name(self) -> str:
        """The first baseline, which speed-ups are over; empty when there is none."""
        return next(iter(self.baseline_us), "")

    def baseline_latency_us(self, name: str = "") -> float | None:
        """Latency of a baseline found in the same run, of the first one unless another is named."""
        samples = self.baseline_us.get(name or self.baseline_name)
        return quantile(samples, 0.25) if samples else None

    @property
    def speedup(self) -> float | None:
        base = self.baseline_latency_us()
        return base / self.latency_us if base and self.latency_us else None

    def paired_speedups(self, against: str = "") -> tuple[float, ...]:
        """How many times as fast as `incumbent` or as a baseline, pair by pair; the first baseline unless another is named."""
        others = self.incumbent_us if against == "incumbent" else self.baseline_us.get(against or self.baseline_name, ())
        return tuple(other / own for own, other in zip(self.samples_us, others)) if all(self.samples_us) else ()

    def median_speedup(self, against: str = "") -> float | None:
        """The middle of these; above 1 is faster."""
        found = self.paired_speedups(against)
        return quantile(found, 0.5) if found else None

    def speedup_interval(self, against: str = "") -> tuple[float, float] | None:
        """Where that middle lies with 95 % confidence; None for fewer than six pairs."""
        return statistics.median_interval(self.paired_speedups(against))

    @property
    def feasible(self) -> bool:
        return bool(self.gates) and all(gate.passed for gate in self.gates)

    @property
    def is_compiled(self) -> bool:
        return any(gate.gate == "build" and gate.passed for gate in self.gates)

    @property
    def failure(self) -> GateResult | None:
        return next((gate for gate in self.gates if not gate.passed), None)


class MemoryItem(Record):
    """One thing worth showing to a generator (m)."""

    id: str
    kind: MemoryKind
    backend: str
    title: str
    text: str
    """What happened or what is so, in words."""
    code: str = ""
    """The kernel in full, for a trace: a memory that shows only a summary defeats the method."""
    key: str = ""
    """What it is found by: the reference it was written for. Title, text and code are used when empty."""
    task: str | None = None
    """The task it came from; None for seed knowledge."""
    family: str = ""
    feasible: bool | None = None
    reason: str = ""
    latency_us: float | None = None
    speedup: float | None = None
    bottleneck: str = ""
    source: str = ""
    """Where it comes from: `run/attempt`, or the card's own source note."""
    parent: str = ""
    """For a trace: id of the trace it was refined from, so that what descends from a revoked kernel can be found."""
    candidate: str = ""
    """Id of the candidate it tells of, so that the same code can be found in other runs."""
    shown_items: tuple[str, ...] = ()
    """Ids of the valued items its writer was shown: credit may go back along them."""
    apis: tuple[str, ...] = ()
    """For a card: the API names it explains, found by exact look-up in retrieved code."""
    always_include: bool = False
    """For a card: part of the backend's static bundle, shown with every draft."""


class ContextItem(Record):
    """A memory item in a context: what it is shown as, and what it was worth at that moment."""

    role: ItemRole
    item: MemoryItem
    q: float | None = None
    """None for items that are not valued (api)."""


class Context(Record):
    """What the policy decided to try next (c)."""

    stage: Stage
    start_point: Attempt | None = None
    """The attempt to refine."""
    items: tuple[ContextItem, ...] = ()
    history: bool = True
    """Whether the generator may use what was tried on this task before; Pass@k draws independent samples and says no."""


class ContextRef(Record):
    """A `Shown` as the journal keeps it."""

    id: str
    role: ItemRole
    q: float | None = None


class Attempt(Record):
    """One turn of the loop (s, c, y, o, r). Everything else in the package is a view of these."""

    id: str
    """`task/n`, n counting the task's attempts from 0."""
    run: str
    task: str
    round: int
    """The loop's round it was made in; larger than n when infrastructure trouble cost the task a round."""
    stage: Stage
    start_point: str | None = None
    """Id of the attempt that was refined."""
    shown_items: tuple[ContextRef, ...] = ()
    truncated_items: tuple[ContextRef, ...] = ()  # what was chosen as well, but found no room in the prompt
    candidate: Candidate
    outcome: Outcome
    reward: float
    """Raw (Eq. 5 or 6); a policy normalises for itself, so an old journal can teach a new policy."""
    lesson: str = ""
    """What was learned, in words, when some model wrote it down."""
    usage: Usage = Usage()
    """All model calls of this turn."""
    finished_at: float = 0.0
    """Seconds since the epoch at which it was finished."""

    @property
    def memory_id(self) -> str:
        """Id of the memory item that holds this attempt's kernel."""
        return f"{self.run}:{self.id}"


class State(Record):
    """A task and what has been tried on it (s). Derived, never stored."""

    task: Task
    attempts: tuple[Attempt, ...] = ()
    round: int = 0

    @cached_property
    def start_points(self) -> tuple[Attempt, ...]:
        """P(x): every feasible attempt."""
        return tuple(a for a in self.attempts if a.outcome.feasible)

    @cached_property
    def best(self) -> Attempt | None:
        """The fastest kernel as far as that can be told: each took the place of one it was clearly faster than."""
        return (statistics.best_so_far(self.attempts) or [None])[-1]

    @property
    def last_attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def next_id(self) -> str:
        return f"{self.task.id}/{len(self.attempts)}"


class Job(Record):
    """One verification, complete enough to run on another machine."""

    backend: str
    settings: Settings = {}
    """The backend's own."""
    task: Task
    candidate: Candidate
    seed: int = 0
    timeout_s: float = Field(default=60, gt=0)
    timing_s: float = Field(default=1, gt=0)
    """For timing the kernel, where times are measured."""
    clock: Literal["auto", "synthetic"] = "auto"
    baselines: tuple[str, ...] = ("eager",)
    protocol: Literal["strict", "paper"] = "strict"
    incumbent: Candidate | None = None
    """The task's best kernel so far, timed in turn with the candidate where times are measured."""
    ignore_cache: bool = False
    """Judge it whatever was found about it before."""
    require_sandbox: bool = False
    """Refuse to judge where a layer of the sandbox is missing."""
    llm_review: Settings = {}
    """The model that may veto, as the llm generator's settings name it; none when empty."""
