"""Requests and responses of the service, with the examples that OpenAPI shows."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from evokernel.service.journal import State

MAX_FILES = 64
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*){0,7}")
EXAMPLE_KERNEL = 'extern "C" void kernel(const float* x, float* out, int rows, int cols) {\n  // ...\n}\n'
EXAMPLE_REQUEST: dict[str, Any] = {"task": "starter/softmax", "backend": "cpp", "kernel": EXAMPLE_KERNEL}


def require_unicode(text: str) -> str:
    """Refuse text that no file can contain: half of a surrogate pair, or a zero byte."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("is not valid Unicode text") from error
    if "\0" in text:
        raise ValueError("contains a zero byte")
    return text


def require_file_name(name: str) -> str:
    """Refuse names that could leave the folder of a kernel."""
    if len(name) > 200 or not FILE_NAME.fullmatch(name):
        raise ValueError("file names have letters, digits, . _ + - and /, and no part begins with a dot")
    return name


Text = Annotated[str, AfterValidator(require_unicode)]
ShortText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(require_unicode)]
FileName = Annotated[str, AfterValidator(require_file_name)]


class Body(BaseModel):
    """A request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class VerificationRequest(Body):
    """One kernel to verify. Give `kernel` or `files`, and `task` or `task_source`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE_REQUEST]})

    task: ShortText | None = Field(None, description="Id of a task of this server, as GET /v1/tasks lists it")
    task_source: Text | None = Field(None, description="Reference source in KernelBench's format; only if the operator allows it")
    backend: ShortText = Field(description="Language of the kernel, such as cpp", examples=["cpp"])
    kernel: Text | None = Field(None, description="Source of the kernel, if it is one file")
    files: dict[FileName, Text] | None = Field(None, min_length=1, max_length=MAX_FILES, description="Files of the kernel by name")
    size: Literal["laptop", "full"] | None = Field(None, description="Size at which the kernel is timed; chosen by the backend if absent")
    baselines: list[Literal["compile"]] = Field([], max_length=1, description="Baselines to time besides PyTorch's eager mode")
    timeout_s: float | None = Field(None, gt=0, le=3600, description="Seconds that the kernel may run in all")
    reuse_outcome: bool = Field(
        True, description="Answer with the outcome of an identical earlier request of this tenant, if this server has verified it"
    )
    label: ShortText | None = Field(None, description="Your own name for this verification; returned as it is")

    @model_validator(mode="before")
    @classmethod
    def name_missing_fields(cls, body: Any) -> Any:
        """Name all missing fields at once."""
        if isinstance(body, dict):
            needed = (("task", "task_source"), ("backend",), ("kernel", "files"))
            missing = [" or ".join(names) for names in needed if all(body.get(name) is None for name in names)]
            if missing:
                raise ValueError(f"missing: {', '.join(missing)}")
        return body

    @model_validator(mode="after")
    def require_one_of_each(self) -> VerificationRequest:
        """Refuse a request with two kernels or two tasks."""
        if (self.kernel is None) == (self.files is None):
            raise ValueError("give either 'kernel' or 'files'")
        if (self.task is None) == (self.task_source is None):
            raise ValueError("give either 'task' or 'task_source'")
        return self

    @property
    def kernel_bytes(self) -> int:
        """Size of the kernel and, if the client sent it, of the reference."""
        texts = [*(self.files or {}).values(), self.kernel or "", self.task_source or ""]
        return sum(len(text.encode()) for text in texts)


class BatchRequest(Body):
    """Several kernels to verify; all are accepted or none."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"verifications": [EXAMPLE_REQUEST]}]})

    verifications: list[VerificationRequest] = Field(min_length=1, max_length=10_000)


class Gate(BaseModel):
    """The result of one gate."""

    gate: str = Field(examples=["check"])
    passed: bool
    reason: str = Field(examples=["mismatch"])
    detail: str
    seconds: float


class BestBaseline(BaseModel):
    """The fastest baseline."""

    name: str
    us: float | None = None
    speedup: float | None = None


class VerificationResult(BaseModel):
    """What the verifier decided, and the figures that follow from it. A figure that was not measured is null."""

    feasible: bool = Field(description="Whether the kernel passed every gate")
    reason: str | None = Field(description="Why it failed, one stable word")
    gates: list[Gate]
    latency_us: float | None
    noise: float | None
    clock: str | None
    speedup: float | None = Field(description="Latency of PyTorch's eager mode divided by the kernel's")
    baseline_us: dict[str, float | None]
    best_baseline: BestBaseline | None
    floor_us: float | None
    bottleneck: str | None
    opportunities: list[dict[str, JsonValue]]
    outcome: dict[str, JsonValue] = Field(description="The complete record of the verifier")


class Verification(BaseModel):
    """A verification and, when it has ended, its result."""

    id: str = Field(examples=["5f0c2f9d6a3b4e1f8a7b6c5d"])
    state: State
    task: str = Field(examples=["starter/softmax"])
    backend: str = Field(examples=["cpp"])
    candidate: str = Field(description="Hash of the kernel")
    label: str | None
    batch: str | None = Field(description="Id of the batch that it belongs to")
    created_at: float = Field(description="Unix time")
    started_at: float | None
    finished_at: float | None
    reused_from: str | None = Field(description="Id of the identical verification whose outcome this is; null if the kernel was verified")
    error: str | None = Field(description="Why there is no outcome, if the state is failed")
    result: VerificationResult | None


class VerificationPage(BaseModel):
    """Verifications, newest first."""

    verifications: list[Verification]
    next: str | None = Field(description="Value of `after` for the next page; null at the end")


class Batch(BaseModel):
    """A batch: the states of its verifications in the order of the request."""

    id: str
    states: dict[State, int] = Field(description="Number of verifications in each state", examples=[{"done": 3, "queued": 1}])
    verifications: list[str] = Field(description="Their ids")


class SourceGain(BaseModel):
    """A line of the kernel and what it would gain."""

    file: str
    line: int
    text: str
    gain_us: float
    cause: str


class KernelProfile(BaseModel):
    """Where a kernel loses its time. Gains overlap, so they do not add up."""

    id: str
    latency_us: float | None
    bottleneck: str | None
    summary: str | None = Field(description="Null if the kernel was not timed or the backend explains no latency")
    figures: dict[str, float | None]
    opportunities: list[dict[str, JsonValue]]
    lines: list[SourceGain]


class TaskEntry(BaseModel):
    """A task of this server."""

    id: str = Field(examples=["starter/softmax"])
    family: str
    category: str
    level: int


class TaskPage(BaseModel):
    """Tasks in order."""

    tasks: list[TaskEntry]
    total: int


class MemoryHit(BaseModel):
    """An item of the memory bank."""

    id: str
    kind: str
    backend: str
    title: str
    text: str
    code: str
    task: str | None
    feasible: bool | None
    speedup: float | None
    similarity: float | None


class MemoryHits(BaseModel):
    """The most similar items, most similar first."""

    items: list[MemoryHit]


class Health(BaseModel):
    """Whether the server accepts verifications."""

    status: Literal["ok", "draining"]
    version: str
