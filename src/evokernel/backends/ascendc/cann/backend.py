"""What CANN adds to the backend on this machine: a card that kernels run on, or compiler and simulator beside the twin, or nothing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evokernel.backends.ascendc.cann import detect, quick_compile, simulate, tensor_server, worker
from evokernel.backends.ascendc.cann.call import BUILT, needed
from evokernel.backends.ascendc.cann.description import description
from evokernel.backends.ascendc.cann.detect import CARD, NONE, NOT_REPORTED, Found
from evokernel.backends.ascendc.cann.diagnosis import profile
from evokernel.backends.ascendc.cann.environment import for_building
from evokernel.backends.ascendc.cann.pipeline import LAUNCHES, TIMED, Cann
from evokernel.backends.ascendc.cann.tiling_probe import tiled
from evokernel.backends.ascendc.cann.tools import devices
from evokernel.backends.ascendc.chips import Chip, chips
from evokernel.backends.ascendc.project import Project
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import DeviceAccess, OptionalTool, TimingResult

if TYPE_CHECKING:
    from evokernel.core.records import Task

ON_CARD, ON_SIMULATOR = "device (msprof)", "estimate (simulator)"
BUILD_S = 600.0
FACTS = ("/etc/ascend_install.info", "/usr/local/Ascend", "/usr/local/dcmi")
"""Where the driver says what it is."""
PROJECT = "project.json"
SMALL_BYTES = 4 << 20
"""What a task may move at its timed size to be simulated: the simulator takes seconds for what a card does in a microsecond."""


class OnCard:
    """Kernels are built by CANN, run on the card out of the judge's child, and are timed by the profiler."""

    is_card: Literal[True] = True

    def __init__(self, cann: Cann, chip: Chip) -> None:
        self.cann, self.chip = cann, chip

    def versions(self) -> dict[str, str]:
        return {"chip": self.chip.name, "toolchain": "cann", **self.cann.found.versions}

    def build(self, task: Task, project: Project, workdir: Path) -> None:
        self.cann.build(project, description(project, task.signature), workdir)

    def access(self, workdir: Path) -> DeviceAccess:
        """For the child."""
        variables = needed(json.loads((workdir / BUILT).read_text())["variables"])
        return DeviceAccess(tuple(devices()), (str(self.cann.home), *FACTS), variables)

    def explain_failure(self, workdir: Path, error: CandidateError) -> CandidateError:
        """A process next to a candidate may say that the card failed; whether it did, the card is asked."""
        if error.reason == "killed":
            self.cann.refuse_lost(workdir)
        return error

    def estimate_latency(self, task: Task, workdir: Path) -> TimingResult:
        """What the profiler says, held against PyTorch on the same card where torch_npu is installed, else against nobody."""
        folder = workdir / TIMED
        torch = tensor_server.draw(task, workdir, folder, LAUNCHES, self.cann.device)
        found = self.cann.measured(workdir, folder)
        base = {"torch": paired(torch, len(found.duration_us))} if torch else {}
        return TimingResult(ON_CARD, found.duration_us, base, profile(task, found, self.chip))


class Beside:
    """CANN's compiler looks at kernels that the twin builds and runs; `simulates` has its simulator time them, where it can."""

    is_card: Literal[False] = False

    def __init__(self, cann: Cann, chip: Chip, compiler: str, simulates: bool) -> None:
        self.cann, self.chip, self.compiler, self.simulates = cann, chip, compiler, simulates

    def versions(self) -> dict[str, str]:
        """Added to the twin's."""
        return self.cann.found.versions

    def check(self, project: Project, workdir: Path) -> None:
        """Raises bisheng's errors; nothing when this one cannot compile a kernel by itself."""
        found, variables = self.cann.found, for_building(workdir, self.cann.home)
        quick_compile.check(project, found.tools["bisheng"], workdir, variables)
        (workdir / PROJECT).write_text(json.dumps(asdict(project)))

    def estimate_latency(self, task: Task, workdir: Path) -> TimingResult | None:
        """What the simulator says; None where there is none, or the task is too large for it. It is held against nobody's estimate."""
        found = self.cann.found
        if not self.simulates or not any(found.tools[name] for name in detect.PROFILERS) or task.work.bytes > SMALL_BYTES:
            return None
        folder = workdir / TIMED
        tensor_server.draw(task, workdir, folder, 1)
        arguments = worker.arguments_in(json.loads((folder / worker.ORDER).read_text()), folder)
        asked = tiled(workdir, arguments, self.chip.as_lines(), self.compiler)
        project = Project(**json.loads((workdir / PROJECT).read_text()))
        variables = for_building(workdir, self.cann.home)
        seen = simulate.timed(project, found, self.chip.soc, arguments, asked, workdir, variables, self.cann.build_timeout_s)
        return TimingResult(ON_SIMULATOR, seen.duration_us, {}, profile(task, seen, self.chip))


def chosen(
    toolchain: str, chip: Chip, device: int, build_timeout_s: float | None, compiler: str, found: Found | None = None
) -> OnCard | Beside | None:
    """What there is to be used; None for the twin alone. What is asked for and not there, `lacking` says."""
    found = found or detect.found()
    if found.level == NONE:
        return None
    cann = Cann(found, chip.soc, device, build_timeout_s or BUILD_S)
    if found.level == CARD and not is_foreign(found):
        return OnCard(cann, chip)
    return Beside(cann, chip, compiler, simulates=toolchain == "cann")


def lacking(toolchain: str, chip: Chip, found: Found | None = None) -> str | None:
    """Why CANN cannot be used here as it is asked for, in words that name the fix."""
    found = found or detect.found()
    if toolchain == "cann" and found.level == NONE:
        return f"{found.why}; or set backend.toolchain=auto"
    if found.level != CARD:
        return None
    name = card_name(found)
    if is_foreign(found):
        why = f"this machine has {found.versions['npu']}, and kernels are written for {', '.join(chips())}"
        return f"{why}: set backend.toolchain=twin" if toolchain == "cann" else None
    fitting = [one for one in chips() if name.startswith(one)]
    return f"this machine has {found.versions['npu']}: set backend.chip={fitting[0]}" if fitting and chip.name not in fitting else None


def card_name(found: Found) -> str:
    """`910B2` of `8 x 910B2`; nothing when the driver does not tell."""
    told = found.versions.get("npu", NOT_REPORTED)
    return "" if told == NOT_REPORTED else told.rpartition(" ")[2]


def is_foreign(found: Found) -> bool:
    """Whether the card is another than those kernels are written for."""
    name = card_name(found)
    return bool(name) and not any(name.startswith(one) for one in chips())


def equipment(twin: str, found: Found | None = None) -> Iterator[OptionalTool]:
    """What was found of CANN, what that changes, and what helps."""
    found = found or detect.found()
    if found.level == NONE:
        yield OptionalTool("CANN", False, f"none, and none is needed; kernels run on the twin ({found.why})")
    else:
        told = f"{found.versions.get('cann', NOT_REPORTED)} at {found.home}"
        yield OptionalTool("CANN", True, f"{told}; {found.why}" if found.why else told)
    if found.level == CARD and not is_foreign(found):
        yield OptionalTool("NPU", True, f"{found.versions['npu']}; kernels run on it, and msprof times them")
    elif found.level == CARD:
        yield OptionalTool("NPU", False, f"{found.versions['npu']}, for which no kernel is written; times are the twin's estimates")
    else:
        also = "" if found.level == NONE else "; bisheng compiles every kernel besides, backend.toolchain=cann simulates small ones"
        yield OptionalTool("NPU", False, f"none; times are the twin's estimates{also}")
    yield OptionalTool("Ascend C twin", True, f"{twin}; backend.toolchain=twin uses nothing else")


def paired(times: Sequence[float], count: int) -> tuple[float, ...]:
    """As many figures as there are of the kernel: the middle of every so many trials."""
    return tuple(statistics.median(times[start::count]) for start in range(count))
