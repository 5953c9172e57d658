"""The data types of the package. Everything written to disk or sent to a worker process is a Record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from math import isfinite, prod
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evokernel.core.memory_ids import make_trace_id
from evokernel.core.statistics import median_interval, quantile, sum_if_known

Scalar = bool | int | float | str
Settings = dict[str, Scalar | list[Scalar] | list[list[Scalar]] | None]
TimedSize = Literal["laptop", "full"]
"""The size at which kernels are timed: one that any machine can run whole, or one of a real workload."""
MemoryKind = Literal["api", "practice", "experience", "trace"]
ItemRole = Literal["start", "child", "trace", "experience", "practice", "bottleneck", "partner", "variant", "api", "nothing"]
"""`partner` is a second kernel to combine with the start point. `variant` occurs only in older journals.

`nothing` marks the choice to show no item in a place (`Context.items`)."""


class Record(BaseModel):
    """Base of all records: immutable, rejects unknown fields, compared by value."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Stage(StrEnum):
    """Stage of an attempt: drafting until a kernel is feasible, refining afterwards."""

    DRAFT = "draft"
    REFINE = "refine"


class Tensor(Record):
    """Name, dtype and shape of one tensor of a signature, at bench size."""

    name: str
    """A valid C and Python identifier."""
    dtype: str
    """`float32`, `float64`, `float16`, `bfloat16`, `int64`, `int32`, `int16`, `int8`, `uint8`, `bool` or `complex64`."""
    shape: tuple[int, ...]
    """Extents at bench size; empty for a tensor with one element and no axes."""

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * int("".join(filter(str.isdigit, self.dtype)) or 8) // 8


class ScalarArgument(Record):
    """One scalar argument: a non-tensor input, or a number that the module's constructor takes."""

    name: str
    """A valid C and Python identifier."""
    kind: Literal["int", "float", "bool"]
    """Type of the argument: a 64-bit integer, a double-precision number or a truth value."""
    value: float
    """Value at bench size; the verifier passes the value of the size that it runs."""


class Signature(Record):
    """Arguments of a kernel, in this order: inputs, parameters and buffers, scalars, outputs."""

    inputs: tuple[Tensor, ...]
    """Tensors that `get_inputs` returns, in its order."""
    params: tuple[Tensor, ...] = ()
    """Parameters, then buffers, in the order in which the module registers them."""
    scalars: tuple[ScalarArgument, ...] = ()
    """Numbers, which follow the tensors that are read."""
    outputs: tuple[Tensor, ...]
    """Tensors that the kernel writes; the harness allocates them."""


class Work(Record):
    """Minimum work of a kernel at bench size, counted while the reference runs."""

    flops: float
    """Floating-point operations: two per multiply-and-add of a product, one per element of any other operator that computes."""
    bytes: float
    """Compulsory memory traffic in bytes: inputs and parameters read once, outputs written once."""
    reduction_length: float = 1.0
    """Number of terms in the longest sum that produces one element."""
    peak_bytes: float = 0.0
    """Approximate peak memory in bytes while PyTorch computes the reference; 0 if not measured."""


class Task(Record):
    """An operator at given sizes (x): the reference source, its signature, and the tolerances."""

    id: str
    """`suite/name`."""
    family: str
    """Operator family, for example `activation`, `matmul` or `normalisation`; knowledge cards and values refer to it."""
    families: tuple[str, ...] = ()
    """Families of all operators in the reference, in the order of its source."""
    category: str = ""
    """Group in reports: the suite's own category, or the family if the suite has none."""
    level: int = 1
    """Level from the suite's folder or `suite.toml`; in KernelBench, 1 is single operators, 2 fused ones, 3 models."""
    source: str
    """Python source in KernelBench's format: `Model`, `get_inputs`, `get_init_inputs`."""
    signature: Signature
    """Arguments of the kernel at bench size."""
    work: Work
    """Minimum work at bench size; profiles compare latencies with it."""
    sizes: dict[str, dict[str, int]]
    """Overrides of the module's integer constants for `bench` (none), `small` and `held_out`. A task that is too large to run whole has
    `laptop` too."""
    atol: float = Field(default=1e-4, ge=0)
    """Absolute tolerance, in units of the root mean square of the reference output."""
    rtol: float = Field(default=1e-4, ge=0)
    """Relative tolerance: share of the magnitude of an element of the reference output."""
    tags: tuple[str, ...] = ()
    """Properties that limit what a result says: `fixed-size`, `non-finite`, `nan-and-inf`, `random`, `vacuous`."""

    @property
    def timed_size(self) -> TimedSize:
        """The size at which kernels are timed."""
        return "full" if "laptop" in self.sizes else "laptop"


class Usage(Record):
    """Cost of one or more model calls. None: the service did not report the number."""

    model: str = ""
    """Names of the models, separated by commas; empty if no model was called."""
    calls: int = 0
    """Requests to a model service; failed ones count if the service reported their tokens."""
    input_tokens: int | None = None
    """Tokens of the prompts."""
    output_tokens: int | None = None
    """Tokens of the replies."""
    cost_usd: float | None = None
    """Cost in US dollars, from the model's prices."""
    seconds: float = 0.0
    """Sum of the durations of the requests."""

    def __add__(self, other: Usage) -> Usage:
        """Add two usages; a sum is unknown if either part is unknown, unless that part made no call."""
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
    """Kernel source that a generator wrote for a task (y). Without files if the reply contained no code."""

    backend: str
    """Name of the backend whose language the kernel is written in."""
    files: dict[str, str]
    """Text of each file by its name, which is a relative path; empty if the reply contained no code."""
    notes: str = ""
    """The generator's comment; without files, the reason why the reply is unusable."""
    usage: Usage = Usage()
    """Model calls that wrote the candidate; none for generators without a model."""
    is_unsupported: bool = False
    """Whether the generator cannot write any kernel for this task; the task gets no further attempt."""

    @property
    def id(self) -> str:
        """Hash of backend and files: equal code has an equal id."""
        text = self.backend + "".join(f"\0{k}\0{v}" for k, v in sorted(self.files.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def code(self) -> str:
        if len(self.files) == 1:
            return next(iter(self.files.values()))
        return "\n".join(f"// {name}\n{text}" for name, text in sorted(self.files.items()))


class Step(Record):
    """An optional step of a generator within one attempt, besides writing the candidate."""

    name: str
    """`plan`, `critic` or `repair`."""
    text: str
    """The chosen plan, the change that the critic proposed, or the error that the repair answered."""
    cause: str = ""
    """Of a plan: the cause of latency that it addresses, a key of `evokernel.core.causes.CAUSES`."""
    gain_us: float | None = None
    """Of a plan: its predicted gain in microseconds, bounded by the gain of the opportunity; None if it states none."""
    alternatives: tuple[str, ...] = ()
    """Of a plan: the plans that were not chosen."""
    usage: Usage = Usage()
    """Model calls of the step."""


class Draft(Record):
    """One of several candidates of an attempt, of which only the most promising one is verified (`drafts_per_attempt`)."""

    candidate: str
    """`Candidate.id`; empty if the reply contained no code. The attempt's artifacts hold the code of every draft."""
    p_correct: float | None = None
    """Forecast probability that it passes every gate; None if there were too few attempts for a forecast."""
    latency_us: float | None = None
    """Forecast latency in microseconds, or the backend's estimate with `draft_filter = "estimate"`; None without either."""
    reason: str = ""
    """With `draft_filter = "estimate"`: failure category of a draft without an estimate, as in `GateResult.reason`."""
    is_chosen: bool = False
    """Whether it became the attempt's candidate."""


class Reply(Record):
    """A generator's answer. The run stores it before the verification, so that a crash never repeats a paid model call."""

    candidate: Candidate
    """The kernel in the reply; for a lesson, a candidate without files."""
    prompt: str = ""
    """The complete prompt; empty if the generator uses none."""
    text: str = ""
    """The complete reply, or the text of a lesson."""
    truncated_items: tuple[str, ...] = ()
    """Ids of context items that did not fit into the prompt; the policy does not update their values."""
    step: Step | None = None
    """The step that the reply completes; None for a candidate or a lesson."""
    opened_items: tuple[ContextRef, ...] | None = None
    """Memory items that a generator with tools opened: they, and not the context's items, were shown. None for generators without tools."""
    tool_use: ToolUse | None = None
    """What a generator with tools did; None for others."""
    drafts: tuple[Draft, ...] = ()
    """The drafts among which the candidate was chosen; its usage includes theirs. Empty if it is the only one."""
    prompt_variants: dict[str, str] = {}
    """The variant of each section of the prompt that has variants; empty if they are off."""


class GateResult(Record):
    """Result of one gate of the verifier."""

    gate: str
    """`write`, `screen`, `build`, `check`, `sanitize`, `review` or `time`."""
    passed: bool
    """Whether the candidate may go on to the next gate."""
    reason: str = ""
    """Failure category, one stable word: `compile_error`, `mismatch`, `timeout`."""
    detail: str = ""
    """Explanation of the failure; the next prompt shows it to the generator."""
    seconds: float = 0.0
    """Duration of the gate."""


class Opportunity(Record):
    """One cause of a kernel's latency, and what the kernel would gain without it."""

    cause: str
    """One stable word, a key of `evokernel.core.causes.CAUSES`."""
    gain_us: float
    """Microseconds that the kernel would save without the cause: from a replay of its schedule, or from a stated estimate."""
    line: int = 0
    """Line of the candidate's source that causes it, counted from 1; 0 if it concerns the kernel as a whole."""
    summary: str = ""
    """One or two sentences for the next prompt: the figures, and the next move in standard terms."""
    card: str = ""
    """Name of the knowledge card that explains the technique, such as `matmul-object`; empty if there is none."""


class Profile(Record):
    """Explanation of a kernel's latency; refinement contexts search by its bottleneck."""

    bottleneck: str
    """One stable word: `memory`, `compute`, `latency`, `overhead`."""
    summary: str
    """One or two sentences for the next prompt: the achieved rates, their limits and advice."""
    figures: dict[str, float] = {}
    """The numbers behind the summary, with units in their names: `achieved_gbs`, `memory_share`, `roofline_us`."""
    opportunities: tuple[Opportunity, ...] = ()
    """The causes of the latency, largest gain first. Gains overlap: they do not add up."""

    @field_validator("figures", mode="before")
    @classmethod
    def drop_unreported(cls, figures: Mapping[str, float | None]) -> dict[str, float]:
        """Return the figures without those that are no number: JSON has no NaN, and a tool's NaN means that it reported nothing."""
        return {name: value for name, value in figures.items() if value is not None and isfinite(value)}


class TuningTrial(Record):
    """One setting of a kernel's tunables that the tuner tried."""

    setting: dict[str, int | float]
    """The value of each tunable."""
    latency_us: float | None = None
    """Its latency in microseconds; None if it failed."""
    speedup: float | None = None
    """The default's latency divided by this one: measured alternately, or from two estimates. None if it failed."""
    reason: str = ""
    """Failure category, as in `GateResult.reason`; empty if it was timed. The detail is not kept: the default was correct."""
    stage: Literal["search", "confirm", "verify"] = "search"
    """`search`: screened, built and timed at the timed size. `confirm`: timed once more against the default. `verify`: all gates."""


class Tuning(Record):
    """The search over the tunables of one candidate. The attempt's candidate has the chosen setting."""

    default: dict[str, int | float]
    """The values that the generator wrote."""
    chosen: dict[str, int | float]
    """The values of the delivered kernel; equal to `default` if nothing faster passed all gates."""
    default_us: float
    """Latency of the default in microseconds, from its own verification."""
    trials: tuple[TuningTrial, ...] = ()
    """The trials in order."""
    seconds: float = 0.0
    """Duration of the search, with the final verification."""
    clock: str = ""
    """How the trials were timed, as in `Outcome.clock`."""
    note: str = ""
    """Why the search ended before its bounds, or why the default stayed; empty otherwise."""

    @property
    def gain(self) -> float:
        """The default's latency divided by that of the chosen setting, from the last trial of it; 1 if the default stayed."""
        speedups = [trial.speedup for trial in self.trials if trial.setting == self.chosen and trial.speedup]
        return speedups[-1] if speedups and self.chosen != self.default else 1.0


TRANSIENT_REASONS = frozenset({"timeout", "build_timeout", "memory", "killed", "crash", "exit"})
"""Reasons of failures that may be due to the state of the machine and not to the candidate."""
UNDECIDED_REASONS = frozenset({"killed", "not_run", "no_latency"})
"""Reasons that say something about the machine and nothing about the candidate: such an outcome is no lesson for a model."""


class Outcome(Record):
    """The verifier's record of one candidate (o)."""

    gates: tuple[GateResult, ...]
    """Results of the gates in order, up to the first that failed."""
    samples_us: tuple[float, ...] = ()
    """All latency samples in microseconds, not only their median: rewards depend on the noise."""
    baseline_us: dict[str, tuple[float, ...]] = {}
    """Samples of each baseline in microseconds, paired one to one with `samples_us`."""
    incumbent_us: tuple[float, ...] = ()
    """Samples of the best earlier kernel in microseconds, measured alternately with this one and paired one to one; empty for estimates."""
    incumbent: str = ""
    """`Candidate.id` of the best earlier kernel."""
    clock: str = ""
    """Source of the samples: `cpu` (time charged to the process), `wall`, `synthetic`, or the name of an estimate."""
    profile: Profile | None = None
    """Explanation of the latency; None if the kernel was not timed or the backend explains none."""
    versions: dict[str, str] = {}
    """Versions of the toolchain that verified the candidate."""
    protocol: str = ""
    """How correctness and time were decided: `strict` or `paper`."""
    skipped_checks: tuple[str, ...] = ()
    """Checks that the machine could not perform, one line each: a layer of the sandbox, a sanitizer."""
    run_share: float | None = None
    """At a timed size that is run in parts: the share of the outputs' elements that the parts computed. None if the kernel ran whole."""
    compared_share: float | None = None
    """At a timed size that is run in parts: the share of the outputs' elements that were compared with the reference."""
    random_parts: int | None = None
    """At a timed size that is run in parts: how many parts ran at random positions, besides the first and the last one. None if the kernel
    ran whole, or if the outcome is older than this field."""
    usage: Usage = Usage()
    """Model calls of the verifier itself (LLM review)."""
    tuning: Tuning | None = None
    """The search over the candidate's tunables; None if it declares none or tuning is off."""
    reused_from: str = ""
    """Whose outcome this is, if an identical kernel was verified before: an earlier attempt on the task, or another run of the same
    experiment, by its id. Empty if this candidate was verified."""

    @cached_property
    def latency_us(self) -> float | None:
        """Lower quartile of the samples; None if the kernel was not timed."""
        return quantile(self.samples_us, 0.25) if self.samples_us else None

    @cached_property
    def noise(self) -> float | None:
        """Half of the interquartile range of the samples, relative to their median."""
        low, mid, high = (quantile(self.samples_us, q) for q in (0.25, 0.5, 0.75)) if self.samples_us else (0.0, 0.0, 0.0)
        return (high - low) / 2 / mid if mid > 0 else None

    @property
    def baseline_name(self) -> str:
        """Name of the first baseline, the default for speedups; empty if there is none."""
        return next(iter(self.baseline_us), "")

    def baseline_latency_us(self, name: str = "") -> float | None:
        """Latency of a baseline from the same verification; the first baseline by default."""
        samples = self.baseline_us.get(name or self.baseline_name)
        return quantile(samples, 0.25) if samples else None

    @property
    def speedup(self) -> float | None:
        """Latency of the first baseline divided by the kernel's latency; None if either is missing."""
        base = self.baseline_latency_us()
        return base / self.latency_us if base and self.latency_us else None

    def paired_speedups(self, baseline: str = "") -> tuple[float, ...]:
        """Speedup over a baseline, or over the best earlier kernel for `incumbent`, pair by pair; over the first baseline by default."""
        others = self.incumbent_us if baseline == "incumbent" else self.baseline_us.get(baseline or self.baseline_name, ())
        return tuple(other / own for own, other in zip(self.samples_us, others)) if all(self.samples_us) else ()

    def median_speedup(self, baseline: str = "") -> float | None:
        """Median of the paired speedups; a value above 1 means that the candidate is faster."""
        speedups = self.paired_speedups(baseline)
        return quantile(speedups, 0.5) if speedups else None

    def speedup_interval(self, baseline: str = "") -> tuple[float, float] | None:
        """95 % confidence interval of the median speedup; None for fewer than six pairs."""
        return median_interval(self.paired_speedups(baseline))

    @property
    def feasible(self) -> bool:
        """Whether the candidate passed every gate."""
        return bool(self.gates) and all(gate.passed for gate in self.gates)

    @property
    def is_compiled(self) -> bool:
        return any(gate.gate == "build" and gate.passed for gate in self.gates)

    @property
    def failure(self) -> GateResult | None:
        return next((gate for gate in self.gates if not gate.passed), None)


class Trial(Record):
    """A kernel that a generator with tools verified within its attempt."""

    candidate: Candidate
    """The kernel."""
    outcome: Outcome | None = None
    """The verifier's record of it; None if the verification could not be completed."""


class ToolUse(Record):
    """What a generator with tools, such as an agent, did within one attempt."""

    calls: int
    """Calls of tools that count for its budget."""
    trials: tuple[Trial, ...] = ()
    """The kernels that it verified, in order. The attempt's candidate is verified once more, with other inputs."""
    is_submitted: bool = False
    """Whether it submitted the attempt's candidate; otherwise the candidate is the fastest correct trial, or empty."""
    seconds: float = 0.0
    """How long it took."""
    ending: str = ""
    """How it ended: `ended`, or its exit code, or the limit at which it was killed."""

    @property
    def usage(self) -> Usage:
        """Model calls of the verifier in the trials (LLM review)."""
        return sum((trial.outcome.usage for trial in self.trials if trial.outcome), start=Usage())

    def __add__(self, other: ToolUse) -> ToolUse:
        """Two sessions of one attempt; the later one submits."""
        return other.model_copy(
            update={"calls": self.calls + other.calls, "trials": (*self.trials, *other.trials), "seconds": self.seconds + other.seconds}
        )


class MemoryItem(Record):
    """One entry of the memory bank that a prompt can show (m): an API card, a practice card, an experience or a trace."""

    id: str
    """`run:task/n` for a trace, with `/note` for the experience about it (core/memory_ids.py); `backend/name` for a card."""
    kind: MemoryKind
    """`api` and `practice` are cards; an `experience` says what an attempt taught; a `trace` has the attempt's kernel. A `practice` item
    with a task is a pair of kernels that rewinding made."""
    backend: str
    """Name of the backend that the item is about; prompts of other backends never show it."""
    title: str
    """One line: the heading of a card, or family, task and result of an attempt."""
    text: str
    """What the prompt shows besides the code: the text of a card, a lesson, or the outcome of an attempt."""
    code: str = ""
    """For a trace: the complete kernel. A summary alone would defeat the method."""
    key: str = ""
    """Search key: the source of the reference. If empty, title, text and code are the key."""
    task: str | None = None
    """Id of the task it came from; None for seed knowledge."""
    family: str = ""
    """Operator family of the task; for a card, the family it helps with, or empty for all."""
    feasible: bool | None = None
    """Whether the attempt's kernel passed every gate; None for cards."""
    reason: str = ""
    """Failure category of the attempt, as in `GateResult.reason`; empty for feasible kernels and cards."""
    latency_us: float | None = None
    """Latency of a feasible kernel in microseconds; None if it failed or was not timed, and for cards."""
    speedup: float | None = None
    """Speedup of a feasible kernel over the first baseline; None as for `latency_us`."""
    bottleneck: str = ""
    """Bottleneck of the kernel, as in `Profile.bottleneck`; for a practice card, the one it helps with."""
    source: str = ""
    """Provenance: `run/attempt`, or the source note of a card."""
    parent: str = ""
    """For a trace: id of the trace that was refined. Revoking a kernel uses it to find all descendants."""
    candidate: str = ""
    """Id of the candidate, to find the same code in other runs."""
    shown_items: tuple[str, ...] = ()
    """Ids of the valued items that the generator was shown; `credit_decay` passes rewards back along them."""
    causes: tuple[str, ...] = ()
    """Causes of latency, as in `Opportunity.cause`: for a card, those it helps with; for a trace, those of its profile, largest first."""
    families: tuple[str, ...] = ()
    """For a card: families of operators that need it besides `family`."""
    apis: tuple[str, ...] = ()
    """For a card: names of the APIs it explains. Retrieval looks them up in code exactly."""
    always_include: bool = False
    """For a card: whether every draft of the backend shows it."""
    min_flops: float = 0.0
    """For a card: the operations of a task at its timed size from which on the card applies."""
    max_flops: float | None = None
    """For a card: the operations up to which it applies; None without limit."""

    def suits_work(self, task: Task) -> bool:
        """Whether a card applies to the amount of work of a task."""
        return self.min_flops <= task.work.flops and (self.max_flops is None or task.work.flops <= self.max_flops)


class ContextItem(Record):
    """A memory item in a context, with its role and its value at that moment."""

    role: ItemRole
    """Why the policy chose the item, which decides its section in the prompt."""
    item: MemoryItem
    """The item with its text and code, as the bank had it at that moment."""
    q: float | None = None
    """Value Q; None for items without a value (API cards)."""
    cause: str = ""
    """The cause of latency that the item is meant to help with; empty if it was chosen for another reason."""
    excerpt: str | None = None
    """The lines that the prompt shows instead of the item's code; empty to show none of it, None to show all of it."""
    features: dict[str, float] = {}
    """What the policy `contextual` knew about task and item; empty for other policies."""
    reasons: dict[str, float] = {}
    """The gain in reward that it expected of the item, by feature; their sum is `q`."""

    @property
    def shown_code(self) -> str:
        """The code that the prompt shows."""
        return self.item.code if self.excerpt is None else self.excerpt

    @property
    def ref(self) -> ContextRef:
        """The entry as the journal stores it."""
        return ContextRef(id=self.item.id, role=self.role, q=self.q, features=self.features, reasons=self.reasons)


class Propensity(Record):
    """The probability with which a policy chose the items of a context, given the stage and the start point."""

    probability: float = Field(gt=0, le=1)
    """The probability of this set of items."""
    draws: int = Field(default=0, ge=0)
    """Number of repeated draws from which the policy estimated it; 0 if it is exact."""


class Hypothesis(Record):
    """What a policy expects of removing one cause of a start point's latency."""

    cause: str
    """The cause, a key of `evokernel.core.causes.CAUSES`."""
    predicted_us: float
    """Gain that the profile of the start point predicts, in microseconds."""
    expected_us: float
    """The predicted gain times the share that earlier predictions for this cause brought, times the chance to be correct."""
    refinements: int = 0
    """Earlier refinements on the task that were to address the cause."""
    correct: int = 0
    """Those of them that were correct and timed."""
    realised_share: float | None = None
    """Mean share of the predicted gains that the correct ones brought; None if there is none."""


class Context(Record):
    """The policy's choice for one attempt (c): the stage, the start point and the items that the prompt shows."""

    stage: Stage
    """Whether to draft a new kernel or to refine the start point."""
    start_point: Attempt | None = None
    """The feasible attempt to refine; None when drafting."""
    items: tuple[ContextItem, ...] = ()
    """Memory items to show; prompts drop those of lowest value if they do not fit. An entry with the role `nothing` shows nothing: it
    records that the policy preferred an empty place, so that this choice has a value too."""
    include_history: bool = True
    """Whether the prompt may show earlier attempts on this task; False for independent samples (Pass@k)."""
    hidden_attempts: tuple[str, ...] = ()
    """Ids of earlier attempts on this task that the generator must not see, although it may see others."""
    steps: tuple[Step, ...] = ()
    """Steps that the generator took for this attempt so far; the policy chooses none."""
    propensity: Propensity | None = None
    """How probable this choice was; None for a policy that does not draw at random."""
    focus: Hypothesis | None = None
    """The cause of latency to address first, and what the policy expects of that; None if it leaves the choice to the generator."""
    prompt_variants: dict[str, str] = {}
    """The variant to use of each section of the prompt, chosen by their values; empty for the defaults. The policy chooses none."""
    drafts: tuple[Candidate, ...] = ()
    """Candidates that the generator wrote for this attempt so far: it should write another one. The policy chooses none."""

    @property
    def draft_suffix(self) -> str:
        """What follows the attempt's id in the seed and the name of a further draft; empty for the first one."""
        return f"/draft-{len(self.drafts) + 1}" if self.drafts else ""


class ContextRef(Record):
    """A `ContextItem` as the journal stores it: by id."""

    id: str
    """Id of the memory item."""
    role: ItemRole
    """Role of the item in the context."""
    q: float | None = None
    """Value Q when the context was chosen; None for items without a value (API cards)."""
    features: dict[str, float] = {}
    """As in `ContextItem`: learning reads them here, because memory has changed since."""
    reasons: dict[str, float] = {}
    """As in `ContextItem`: the expected gain by feature, which explains the choice."""


class Attempt(Record):
    """The immutable record of one turn of the loop (s, c, y, o, r). All other results of a run are computed from attempts."""

    id: str
    """`task/n`, where n counts the task's attempts from 0."""
    run: str
    """Id of the run."""
    task: str
    """Id of the task."""
    round: int
    """Round of the loop, from 0; larger than n if infrastructure failures cost the task rounds."""
    stage: Stage
    """Whether the attempt drafted or refined."""
    start_point: str | None = None
    """Id of the attempt that this one refines."""
    shown_items: tuple[ContextRef, ...] = ()
    """Memory items that the prompt showed or an agent opened; the policy updates their values."""
    truncated_items: tuple[ContextRef, ...] = ()
    """Memory items that the policy chose but that were not shown: they did not fit into the prompt, or an agent did not open them."""
    propensity: Propensity | None = None
    """How probable the policy's choice was (`Context.propensity`), for offline evaluation; None if it is not known."""
    candidate: Candidate
    """The kernel that the generator wrote (y)."""
    outcome: Outcome
    """The verifier's record of the candidate (o)."""
    reward: float
    """Raw reward (Eq. 5 or 6). Policies normalise it themselves, so a new policy can learn from an old journal."""
    lesson: str = ""
    """What the generator learned from the outcome, for the attempt's note; empty if it writes no lessons."""
    steps: tuple[Step, ...] = ()
    """Optional steps of the generator in order: plan, critic, repairs; empty if it took none."""
    tool_use: ToolUse | None = None
    """What a generator with tools did, with every kernel that it tried; None for other generators."""
    drafts: tuple[Draft, ...] = ()
    """The drafts with their forecasts, in the order in which they were written; empty with one draft per attempt, and in older journals."""
    prompt_variants: dict[str, str] = {}
    """The variant of each section that the prompt showed, by section; empty if variants are off, and in older journals."""
    focus: Hypothesis | None = None
    """The cause of latency that the policy asked to address first, and what it expected; None if it named none."""
    usage: Usage = Usage()
    """All model calls of the attempt: the candidate, the steps, the LLM review of trials and candidate, and the lesson."""
    finished_at: float = 0.0
    """Time of completion, in seconds since the epoch."""

    @property
    def memory_id(self) -> str:
        """Id of the memory item with this attempt's kernel."""
        return make_trace_id(self.run, self.id)


FULL_SIZE_FACTOR = 2
"""How many times longer a simulation may take at the size `full`."""


class VerificationSettings(Record):
    """How a candidate is verified: settings of a run, which every job of the run repeats."""

    seed: int = 0
    """Seed of all random choices: of the run, or, derived from it, of one verification's inputs."""
    timeout_s: float = Field(default=60, gt=0)
    """Time limit of one verification, in seconds; in simulation of CPU time, and twice as long for a task that is timed at size `full`."""
    timing_s: float = Field(default=1, gt=0)
    """Time for timing one kernel; three times as long if only few calls fit, or if two kernels are about equally fast."""
    clock: Literal["auto", "synthetic"] = "auto"
    """`synthetic` replaces every measured time by an invented, repeatable one: for tests, never for results."""
    baselines: tuple[str, ...] = ("eager",)
    """Baselines to compare kernels with; speedups refer to the first."""
    protocol: Literal["strict", "paper"] = "strict"
    """How correctness and time are decided; `paper` is the published comparison (atol = rtol = 1e-2, five draws, no sanitizer)."""
    require_sandbox: bool = False
    """Refuse to run if a layer of the sandbox is unavailable."""
    tuning_trials: int = Field(default=0, ge=0, le=1000)
    """Settings of a correct kernel's tunables that are tried within its attempt, without a model call. 0: none."""
    tuning_s: float = Field(default=60, gt=0)
    """Time after which no further setting of a kernel is tried."""
    llm_review: Settings = {}
    """A model that reviews correct kernels and may veto them; the same settings as for the llm generator, such as `model`. Empty: off."""


class Job(VerificationSettings):
    """One verification. It contains everything that another machine needs to run it."""

    backend: str
    """Name of the backend."""
    settings: Settings = {}
    """Settings of the backend."""
    task: Task
    """The task with its reference."""
    candidate: Candidate
    """The kernel to verify."""
    incumbent: Candidate | None = None
    """The task's best kernel so far; it is measured alternately with the candidate if latencies are measured."""
    purpose: Literal["verify", "tuning"] = "verify"
    """`tuning`: determine the latency at the timed size only. Such an outcome says nothing about correctness at other sizes."""
    ignore_cache: bool = False
    """Verify the candidate even if the outcome cache has a result."""
    reports_gates: bool = False
    """Whether a worker sends a message at the start and at the end of each gate, before its reply."""

    @property
    def simulation_timeout_s(self) -> float:
        """CPU seconds that the simulations of the kernel may take: more at published sizes, where parts of operators are large."""
        return self.timeout_s * (FULL_SIZE_FACTOR if self.task.timed_size == "full" else 1)
