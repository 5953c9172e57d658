"""The worker processes that all verifications of this process share; they stay warm between calls and end with the process."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Mapping
from typing import Any

from evokernel.app.verification_pool import VerificationPool
from evokernel.core.cores import usable_cores
from evokernel.core.errors import UserError

PoolKey = tuple[int, int, str]
"""Process, number of workers, and settings of the executor."""
POOLS: dict[PoolKey, VerificationPool] = {}
LOCK = threading.Lock()


def shared_pool(workers: int | None = None, settings: Mapping[str, Any] | None = None) -> VerificationPool:
    """Return the pool for this number of workers and these settings of the executor. The first worker
    process starts with the pool, the others when they are needed."""
    if settings is not None and not isinstance(settings, Mapping):
        raise UserError(f'settings must be a dictionary, such as {{"timeout_s": 20}}, not {type(settings).__name__}.')
    executor = (settings or {}).get("executor")
    count = max(workers or 0, usable_cores())
    key = (os.getpid(), count, json.dumps(executor, sort_keys=True))
    with LOCK:
        if key not in POOLS:
            POOLS[key] = VerificationPool(count, {"executor": executor} if executor else None)
            POOLS[key].warm_up()
        return POOLS[key]


def close_workers() -> None:
    """End the worker processes that `verify` and `verify_many` share. The next verification starts new ones.

    The workers end with the process anyway: call this to free their memory, or after a change of the toolchain.
    """
    with LOCK:
        pools = [POOLS.pop(key) for key in list(POOLS) if key[0] == os.getpid()]
    for pool in pools:
        pool.close()


atexit.register(close_workers)
