"""The cores of this machine, and the share of them that one of several workers uses."""

from __future__ import annotations

import os
from collections.abc import Mapping

SHARE_VARIABLE = "EVOKERNEL_CORES"
"""Environment variable with the cores of a worker: the processes that it starts use no more threads at a time."""
POOL_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Libraries that otherwise start one thread per core of the machine in every process. A value that the user set is kept."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def core_share(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many cores the processes of this worker may use together; all of them in a process that is no worker."""
    text = environment.get(SHARE_VARIABLE, "")
    return max(1, int(text)) if text.isdigit() else usable_cores()


def make_share_variables(workers: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables by which each of `workers` processes, and every process that it starts, uses its share of the cores.

    With 12 workers on 16 cores each gets one. Without this, the verifier of a GPU kernel starts about ten processes, and the libraries of
    each of them 16 threads.
    """
    share = max(1, core_share(environment) // max(1, workers))
    own_share = environment.get(SHARE_VARIABLE, "")
    chosen = {name: environment[name] for name in POOL_VARIABLES if environment.get(name, own_share) != own_share}
    pools = dict.fromkeys(POOL_VARIABLES, str(share)) | chosen
    return {SHARE_VARIABLE: str(share), **pools}
