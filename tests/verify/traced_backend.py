"""A traced backend without a compiler: a candidate is Python that returns a factor; its program is that factor."""

import json
import os
from pathlib import Path

from evokernel.core.backend import Backend, Capabilities, TimingResult
from evokernel.core.errors import CandidateError
from evokernel.core.records import Profile

STATE = {"spoiled": False}


class Kernel:
    def __init__(self, factor):
        self.factor = factor

    def bind(self, arguments):
        def call():
            arguments.outputs[0].data[...] = self.factor * arguments.inputs[0].data

        return call


class Traced(Backend):
    environment = {"TRACED": "yes"}
    is_repeatable = False

    def __init__(self, where: str = "", us: float = 5.0, baseline: bool = True):
        self.where, self.us, self.baseline = where, us, baseline

    @property
    def capabilities(self):
        return Capabilities(timing="estimate", is_simulated=True, tracing="source", sanitizer="every_run", is_repeatable=self.is_repeatable)

    def versions(self):
        return {"traced": "1"}

    def entry_point(self, task):
        return "def kernel(shape)"

    def load_libraries(self):
        self.warmed_in = os.getpid()

    def trace(self, candidate: Path, calls, into: Path):
        scope = {"where": Path(self.where), "os": os, "STATE": STATE, "backend": self}
        exec((candidate / "kernel.py").read_text(), scope)
        for size, call in calls.items():
            (into / f"{size}.program").write_text(json.dumps(scope["kernel"](call.inputs[0][2])))

    def inspect(self, programs: Path, calls, into: Path):
        violations = ["the library was spoiled"] if STATE["spoiled"] else []
        assert os.environ["TRACED"] == "yes"
        assert self.warmed_in != os.getpid()
        factors = [json.loads((programs / f"{size}.program").read_text()) for size in calls]
        violations += ["not a number"] * sum(not isinstance(factor, (int, float)) for factor in factors)
        (into / "findings.json").write_text(json.dumps(violations))

    def lower(self, programs: Path, calls, into: Path):
        factor = json.loads((programs / "bench.program").read_text())
        if factor > 100:
            raise ValueError("too large to lower")
        (into / "lowered").write_text(str(factor))

    def explain_exception(self, error):
        return CandidateError("unsupported" if "lower" in str(error) else "trace_error", f"{type(error).__name__}: {error}")

    def screen(self, task, candidate, workdir: Path):
        return json.loads((workdir / "inspect" / "findings.json").read_text())

    def build(self, task, candidate, workdir: Path):
        assert (workdir / "lower" / "lowered").exists()

    def load(self, workdir: Path):
        return Kernel(json.loads((workdir / "programs" / "small.program").read_text()))

    def sizes_for(self, candidate):
        return ("small", "held_out")

    def estimate_latency(self, task, workdir: Path, stderr):
        return TimingResult(
            "estimate (made up)",
            (self.us,),
            {"other": (2 * self.us,)} if self.baseline else {},
            Profile(bottleneck="memory", summary="made up"),
        )


class Repeatable(Traced):
    is_repeatable = True
