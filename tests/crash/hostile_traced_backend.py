"""A traced backend without screening: candidates act while they are traced, where one folder is writable; a program is a factor."""

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


class HostileTracedBackend:
    """A candidate that sets no `factor` gets 1, which is wrong."""

    environment: dict[str, str] = {}

    def __init__(self, where: str = "", token: str = "", port: str = "") -> None:
        hostile_tools.SCENE |= {"where": where, "token": token, "port": port}

    def unavailable_reason(self):
        return None

    def versions(self):
        return {}

    def optional_tools(self):
        return ()

    def entry_point(self, task):
        return "factor = ..."

    def load_libraries(self):
        pass

    def trace(self, candidate: Path, calls, into: Path):
        scope = {"__name__": "candidate", "into": str(into), "factor": 1}
        exec(compile((candidate / "kernel.py").read_text(), "kernel.py", "exec"), scope)
        for size in calls:
            (into / f"{size}.program").write_text(json.dumps(scope["factor"]))

    def inspect(self, programs: Path, calls, into: Path):
        factors = [json.loads((programs / f"{size}.program").read_text()) for size in calls]
        (into / "findings.json").write_text(
            json.dumps([f"{factor!r} is not a number" for factor in factors if not isinstance(factor, int)])
        )

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

    def sizes_for(self, candidate):
        return ("small", "held_out")

    def explain_failure(self, candidate, workdir, error):
        return error

    def preload(self, workdir):
        pass

    def partial_run_note(self, workdir, stderr):
        return ""

    def estimate_latency(self, task, workdir: Path, stderr):
        return TimingResult("estimate (made up)", (5.0,), {"other": (10.0,)}, Profile(bottleneck="memory", summary="made up"))

    def sanitizer(self):
        return None

    def profile(self, task, outcome):
        return None
