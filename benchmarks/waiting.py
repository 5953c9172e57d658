"""A backend whose builds only wait, as for a device, so that nodes on one machine do not compete for its cores."""

from __future__ import annotations

import time
from pathlib import Path

from evokernel.backends.cpp.backend import CppBackend
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Task

WAIT_S = 1.0


class WaitingBackend(CppBackend):
    """Rejects every candidate after a fixed time."""

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        time.sleep(WAIT_S)
        raise CandidateError("compile_error", candidate.code)
