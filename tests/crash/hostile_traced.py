"""A traced backend that looks at nothing: candidates act while they are traced, where a folder can be written; a program is a factor."""

import json
from pathlib import Path

import hostile_tools

from evokernel.core.errors import CandidateError
from evokernel.core.protocols import TimingResult
from evokernel.core.records import Profile


class FactorKernel:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def bind(self, arguments):
        def call() -> None:
            arguments.outputs[0].data[...] = self.factor * arguments.inputs[0].data

        return call


class Traced:
    """`factor` is what a candidate that acts and says no more comes to: wrong."""

    environment: dict[str, str] = {}

    def __init__(self, where: str = "", token: str = "", port: str = "") -> None:
        hostile_tools.SCENE |= {"where": where, "token": token, "port": port}

    def missing(self):
        return None

    def versions(self):
        return {}

    def equipment(self):
        return ()

    def entry(self, task):
        return "factor = ..."

    def warm(self):
        pass

    def trace(self, candidate: Path, calls, into: Path):
        scope = {"__name__": "candidate", "into": str(into), "factor": 1}
        exec(compile((candidate / "kernel.py").read_text(), "kernel.py", "exec"), scope)
        for size in calls:
            (into / f"{size}.program").write_text(json.dumps(scope["factor"]))

    def inspect(self, programs: Path, calls, into: Path):
        factors = [json.loads((programs / f"{size}.program").read_text()) for size in calls]
        (into / "findings.json").write_text(json.dumps([f"{factor!r} is no number" for factor in factors if not isinstance(factor, int)]))

    def lower(self, programs: Path, calls, into: Path):
        (into / "lowered").write_text("")

    def explain(self, error):
        return CandidateError("trace_error", f"{type(error).__name__}: {error}")

    def screen(self, task, candidate, workdir: Path):
        return json.loads((workdir / "inspect" / "findings.json").read_text())

    def build(self, task, candidate, workdir: Path):
        assert (workdir / "lower" / "lowered").exists()

    def load(self, workdir: Path):
        return FactorKernel(json.loads((workdir / "programs" / "small.program").read_text()))

    def tried(self, candidate):
        return ("small", "held_out")

    def told(self, candidate, workdir, error):
        return error

    def opened(self, workdir):
        pass

    def sampled(self, workdir, said):
        return ""

    def timed(self, task, workdir: Path, said):
        return TimingResult("estimate (made up)", (5.0,), {"other": (10.0,)}, Profile(bottleneck="memory", summary="made up"))

    def sanitizer(self):
        return None

    def profile(self, task, outcome):
        return None
