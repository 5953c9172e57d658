"""A backend that runs kernels in a simulation of its own, next to their code: a candidate is Python, the price is a line it writes."""

import os
import re
import sys
from pathlib import Path

from evokernel.core.errors import CandidateError
from evokernel.core.protocols import TimingResult
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
            sys.stderr.write(f"report {blocks} of 4, {count / 100} us, jailed {jailed()}\n")
            sys.stderr.flush()

        return call


def jailed():
    try:
        Path("left").write_text("x")
    except OSError:
        return "yes"
    return "no"


class Priced:
    def __init__(self, limit: int = 1 << 20):
        self.limit = limit

    def missing(self):
        return None

    def versions(self):
        return {"priced": "1"}

    def entry(self, task):
        return "def kernel(arguments)"

    def screen(self, task, candidate, workdir):
        return ()

    def build(self, task, candidate, workdir: Path):
        (workdir / "kernel.py").write_text(candidate.files["kernel.py"])

    def load(self, workdir: Path):
        scope = {"os": os, "sys": sys, "CandidateError": CandidateError}
        exec((workdir / "kernel.py").read_text(), scope)
        return Kernel(scope["kernel"], self.limit)

    def sanitizer(self):
        return None

    def profile(self, task, outcome):
        return None

    def tried(self, candidate):
        return ("small", "bench") if "# small" in candidate.files["kernel.py"] else ("small", "held_out", "bench")

    def told(self, candidate, workdir: Path, error):
        assert (workdir / "kernel.py").exists()
        return CandidateError(error.reason, f"told: {error.detail}\nrule: none\nhint: none")

    def opened(self, workdir):
        pass

    def sampled(self, workdir, said):
        (blocks,) = re.findall(r"report (\d) of 4", said)
        return "" if blocks == "4" else f"{blocks} of 4 blocks were run"

    def timed(self, task, workdir: Path, said):
        *_, last = re.findall(r"report \d of 4, ([\d.]+) us", said)
        summary = f"{said.count('report')} runs, {'outside a jail' if 'jailed no' in said else 'in a jail'}"
        return TimingResult(
            "estimate (a line)", (float(last),), {"eager": (3 * float(last),)}, Profile(bottleneck="memory", summary=summary)
        )
