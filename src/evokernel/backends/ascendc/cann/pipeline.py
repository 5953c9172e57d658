"""The whole way of one candidate through CANN: built with the judge, called in a process of its own, measured by the profiler."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann import errors, package, profiler, quick_compile, worker
from evokernel.backends.ascendc.cann.call import BUILT, OperatorKernel, load
from evokernel.backends.ascendc.cann.detect import CARD, NONE, Found
from evokernel.backends.ascendc.cann.environment import DEVICE, Installed, for_building, for_running
from evokernel.backends.ascendc.cann.generate import generate, places, preset, vendor
from evokernel.backends.ascendc.cann.profiler import Measured
from evokernel.backends.ascendc.cann.tools import Ran, run
from evokernel.core import isolated_python
from evokernel.core.devices import hold_device, physical_device
from evokernel.core.errors import CandidateError, InfraError, UserError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.protocols import Arguments

METRICS = "PipeUtilization,Memory,L2Cache,ArithmeticUtilization"
RUN_S = 180.0
TIMED = "timed"
LAUNCHES = 5
"""Of which the first warms the card up; the profiler reads the rest."""


class Cann:
    """`soc` is the chip's full name (`Ascend910B2`), `device` a card's number, `jailed` whether tools run in the judge's jail."""

    def __init__(self, found: Found, soc: str, device: int = 0, build_timeout_s: float = 600.0, jailed: bool = True) -> None:
        if found.level == NONE or found.home is None:
            raise UserError(found.why)
        self.found, self.home, self.soc, self.device = found, found.home, soc, device
        self.build_timeout_s, self.jailed = build_timeout_s, jailed

    def refused(self, project: Project) -> str:
        """Why a project cannot go this way; "" when it can. An operator is called by its own interface, not through a model's binding."""
        if project.bind and self.found.level == CARD:
            return f"{project.op} is called through a binding of its own, which only the twin runs: set backend.toolchain=twin"
        return ""

    def build(self, project: Project, description: str, workdir: Path) -> None:
        """With the judge: leaves in `workdir` what `load` needs. `description` is msopgen's json.

        Bisheng alone looks at the kernel first, in seconds. Without a card that is all; a package is built where it can be run, or where
        this toolkit's bisheng cannot compile a kernel by itself.
        """
        if why := self.refused(project):
            raise UserError(why)
        variables = for_building(workdir, self.home)
        checked = quick_compile.check(project, self.found.tools["bisheng"], workdir, variables)
        if checked and self.found.level != CARD:
            return
        self.package(project, description, workdir, variables)

    def package(self, project: Project, description: str, workdir: Path, variables: dict[str, str]) -> Installed:
        """The operator project, built and installed for this candidate alone."""
        msopgen = self.found.tools["msopgen"]
        if msopgen is None:
            raise UserError(self.found.why)
        folder, name = generate(project, description, self.soc, msopgen, workdir, variables), vendor(project)
        preset(folder, self.home, name)
        installer = package.build(folder, workdir, variables, self.build_timeout_s, places(project))
        installed = package.install(installer, workdir, variables, name)
        built = {
            "op": project.op,
            "library": str(installed.library),
            "home": str(self.home),
            "variables": for_running(workdir, self.home, installed, self.device),
        }
        (workdir / BUILT).write_text(json.dumps(built))
        return installed

    def load(self, workdir: Path) -> OperatorKernel:
        """With the candidate, in a process that may open the card: one operator of a type per process."""
        return load(workdir)

    def run(self, workdir: Path, arguments: Arguments, calls: int = 1) -> None:
        """Fills the outputs from a process of its own, which is gone afterwards."""
        folder = workdir / "run"
        order = worker.write_order(folder, workdir, arguments, calls)
        self.judged(self.started(worker_command(order), workdir), folder)
        worker.read_outputs(folder, arguments)

    def timed(self, workdir: Path, arguments: Arguments) -> Measured:
        """What the profiler sees the kernel take on the card; copies to and from it do not count."""
        folder = workdir / TIMED
        worker.write_order(folder, workdir, arguments, LAUNCHES)
        return self.measured(workdir, folder)

    def measured(self, workdir: Path, folder: Path) -> Measured:
        """The same of an order that lies in a folder."""
        script = folder / "run.sh"
        script.write_text(f"exec {shlex.join(worker_command(folder / worker.ORDER))}\n")
        op = json.loads((workdir / BUILT).read_text())["op"]
        output = folder / "profile"
        options = [f"--output={output}", f"--aic-metrics={METRICS}", f"--launch-count={LAUNCHES}", f"--kernel-name={op}"]
        with hold_device(f"npu{physical_device(self.device, DEVICE)}"):
            self.judged(self.started([*self.profiler(), *options, "bash", str(script)], workdir), folder)
        measured = profiler.read(output, op)
        if len(measured.duration_us) > LAUNCHES:
            raise CandidateError("forbidden", f"the profiler's tables hold {len(measured.duration_us)} launches, and {LAUNCHES} were made")
        return measured._replace(duration_us=measured.duration_us[1:]) if len(measured.duration_us) > 1 else measured

    def refuse_lost(self, workdir: Path) -> None:
        """Raises InfraError when the card cannot be used even without a candidate."""
        done = self.started(isolated_python.isolated_command(worker.__name__, "probe", str(self.home)), workdir)
        if done.timed_out or done.code:
            why = f"it does not answer within {RUN_S:g} s" if done.timed_out else done.text.strip()[-300:] or "it said nothing"
            raise InfraError(f"card {self.device} is lost: {why}")

    def profiler(self) -> list[str]:
        """The newer tool measures operators only; the older has that as its first word."""
        if newer := self.found.tools.get("msopprof"):
            return [newer]
        if older := self.found.tools.get("msprof"):
            return [older, "op"]
        raise UserError(self.found.why or "no profiler: install msprof or msopprof with the CANN toolkit")

    def started(self, command: Iterable[str], workdir: Path) -> Ran:
        """Runs a process on the card."""
        variables = json.loads((workdir / BUILT).read_text())["variables"]
        return run(list(command), workdir, variables, RUN_S, jailed=self.jailed, on_card=True)

    def judged(self, done: Ran, folder: Path) -> None:
        """Whose fault it is when the worker did not end well: it says so itself, unless it could not."""
        if done.timed_out:
            raise CandidateError("timeout", f"the operator did not finish within {RUN_S:g} s on the card")
        try:
            answer = json.loads((folder / worker.ANSWER).read_text())
        except (OSError, ValueError):
            answer = None
        if answer and answer["reason"]:
            raise CandidateError(answer["reason"], answer["detail"])
        if answer and answer["detail"]:
            raise InfraError(answer["detail"])
        if done.code and answer:
            raise InfraError(f"the profiler failed, though the operator ran: {done.text.strip()[-300:] or 'it said nothing'}")
        if answer is None:
            raise (
                errors.explain(done.text, errors.RUN)
                if not done.is_killed
                else CandidateError("killed", "the process on the card was killed")
            )


def worker_command(order: Path) -> list[str]:
    return isolated_python.isolated_command(worker.__name__, "main", str(order))
