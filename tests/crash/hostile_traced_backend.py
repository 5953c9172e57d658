"""A traced backend without screening: candidates act while they are traced, where one folder is writable; a program is a factor."""

import json
from pathlib import Path

import hostile_tools

from evokernel.core.backend import Backend, Capabilities, TimingResult
from evokernel.core.records import Profile


class FactorKernel:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def bind(self, arguments):
        def call() -> None:
            arguments.outputs[0].data[...] = self.factor * arguments.inputs[0].data

        return call


class HostileTracedBackend(Backend):
    """A candidate that sets no `factor` gets 1, which is wrong."""

    def __init__(self, where: str = "", token: str = "", port: str = "") -> None:
        hostile_tools.SCENE |= {"where": where, "token": token, "port": port}

    @property
    def capabilities(self):
        return Capabilities(timing="estimate", is_simulated=True, tracing="source", sanitizer="every_run")

    def entry_point(self, task):
        return "factor = ..."

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

    def screen(self, task, candidate, workdir: Path):
        return json.loads((workdir / "inspect" / "findings.json").read_text())

    def build(self, task, candidate, workdir: Path):
        assert (workdir / "lower" / "lowered").exists()

    def load(self, workdir: Path):
        return FactorKernel(json.loads((workdir / "programs" / "small.program").read_text()))

    def sizes_for(self, candidate):
        return ("small", "held_out")

    def estimate_latency(self, task, workdir: Path, stderr):
        return TimingResult("estimate (made up)", (5.0,), {"other": (10.0,)}, Profile(bottleneck="memory", summary="made up"))
