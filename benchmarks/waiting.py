"""A backend whose builds only wait, as for a device: nodes on one machine then do not compete for its cores."""

from __future__ import annotations

import time
from pathlib import Path

from evokernel.backends.cpp.backend import CppBackend
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Task

WAITS_S = 1.0


class Waiting(CppBackend):
    """Refuses everything, after a while."""

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        time.sleep(WAITS_S)
        raise CandidateError("compile_error", candidate.code)
