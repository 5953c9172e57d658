"""A backend that simulates kernels in the candidate process: a candidate is Python, and a line on stderr gives the latency estimate."""

import os
import re
import sys
from pathlib import Path

from evokernel.core.backend import Backend, Capabilities, TimingResult
from evokernel.core.errors import CandidateError
from evokernel.core.records import Profile


class Kernel:
    """`kernel(arguments)` of the candidate, and how many of four blocks of work are done."""

    def __init__(self, function, limit):
        self.function, self.limit = function, limit

    def bind(self, arguments):
        def call():
            count = arguments.inputs[0].data.size
            self.function(arguments)
            blocks = 4 if count <= self.limit else 1
            if blocks < 4:
                arguments.outputs[0].data[count // 4 :] = -1
            sys.stderr.write(f"report {blocks} of 4, {count / 100} us, confined {describe_confinement()}\n")
            sys.stderr.flush()

        return call


def describe_confinement():
    try:
        Path("left").write_text("x")
    except OSError:
        return "yes"
    return "no"


class EstimatingBackend(Backend):
    def __init__(self, limit: int = 1 << 20):
        self.limit = limit

    @property
    def capabilities(self):
        return Capabilities(timing="estimate", is_simulated=True, sanitizer="every_run")

    def versions(self):
        return {"estimating": "1"}

    def entry_point(self, task):
        return "def kernel(arguments)"

    def screen(self, task, candidate, workdir):
        return ()

    def build(self, task, candidate, workdir: Path):
        (workdir / "kernel.py").write_text(candidate.files["kernel.py"])

    def load(self, workdir: Path):
        scope = {"os": os, "sys": sys, "CandidateError": CandidateError}
        exec((workdir / "kernel.py").read_text(), scope)
        return Kernel(scope["kernel"], self.limit)

    def sizes_for(self, candidate):
        return ("small", "bench") if "# small" in candidate.files["kernel.py"] else ("small", "held_out", "bench")

    def explain_failure(self, candidate, workdir: Path, error):
        assert (workdir / "kernel.py").exists()
        return CandidateError(error.reason, f"explained: {error.detail}\nrule: none\nhint: none")

    def partial_run_note(self, workdir, stderr):
        (blocks,) = re.findall(r"report (\d) of 4", stderr)
        return "" if blocks == "4" else f"{blocks} of 4 blocks were run"

    def estimate_latency(self, task, workdir: Path, stderr):
        *_, last = re.findall(r"report \d of 4, ([\d.]+) us", stderr)
        summary = f"{stderr.count('report')} runs, {'outside a sandbox' if 'confined no' in stderr else 'in a sandbox'}"
        return TimingResult(
            "estimate (a line)", (float(last),), {"eager": (3 * float(last),)}, Profile(bottleneck="memory", summary=summary)
        )
