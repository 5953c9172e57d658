"""What this machine can do, measured once per compiler and flags, and kept."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.cpp.build import FLAGS
from evokernel.backends.native.toolchain import compile, find, processor, version
from evokernel.core import paths
from evokernel.core.errors import InfraError
from evokernel.core.protocols import OptionalTool

log = logging.getLogger(__name__)
TIMEOUT_S = 60.0


class Ceilings(NamedTuple):
    """Of one core."""

    memory_gbs: float
    """Read and written, from buffers larger than any cache."""
    cache_gbs: float
    """The same within the first-level cache: more than this no kernel moves."""
    gflops: float
    """Fused multiply-adds in float32, two operations each."""
    cache_bytes: float = 1 << 20
    """Data sets up to this size are held against `cache_gbs`."""


NOMINAL = Ceilings(memory_gbs=10.0, cache_gbs=40.0, gflops=40.0)


@lru_cache
def measured(compiler: str, flags: str) -> Ceilings:
    """From the cache folder, else measured now (about half a second)."""
    path = find(compiler)
    if path is None:
        return NOMINAL
    source = (Path(__file__).parent / "ceilings.cpp").read_text()
    key = hashlib.sha256("\0".join([source, version(path), flags, processor()]).encode()).hexdigest()[:16]
    kept = paths.cache_folder() / "ceilings" / f"{key}.json"
    try:
        return Ceilings(**json.loads(kept.read_text()))
    except (OSError, ValueError, TypeError):
        found = measure(path, flags, source)
    try:
        paths.write_bytes(kept, json.dumps(found._asdict()).encode())
    except OSError as error:
        log.debug("ceilings are not kept: %s", error)
    return found


def known() -> Iterator[OptionalTool]:
    """What was measured last, whatever the compiler; nothing before a kernel was timed."""
    for kept in sorted((paths.cache_folder() / "ceilings").glob("*.json"), key=lambda path: path.stat().st_mtime)[-1:]:
        try:
            best = Ceilings(**json.loads(kept.read_text()))
            detail = f"{best.memory_gbs:.3g} GB/s from memory, {best.cache_gbs:.3g} from cache, {best.gflops:.3g} GFLOP/s on one core"
            yield OptionalTool("ceilings", True, detail)
        except (OSError, ValueError, TypeError):
            yield OptionalTool("ceilings", False, f"{kept} cannot be read; it will be measured again")


def measure(path: str, flags: str, source: str) -> Ceilings:
    """Builds and runs the benchmark, pinned to nothing and with one thread."""
    with tempfile.TemporaryDirectory(prefix=f"evokernel-judge-{os.getpid()}-") as folder:  # a name the judge removes if this is killed
        workdir = Path(folder)
        (workdir / "ceilings.cpp").write_text(source)
        wanted = [flag for flag in FLAGS if flag not in ("-shared", "-fvisibility=hidden")] + flags.split()
        for options in (wanted, [flag for flag in wanted if flag != "-march=native"]):
            done = compile(path, [*options, "-w", "ceilings.cpp", "-o", "ceilings"], workdir, TIMEOUT_S)
            if done.code == 0:
                break
        else:
            raise InfraError(f"the ceilings benchmark does not build: {done.text[-300:]}")
        try:
            run = subprocess.run([workdir / "ceilings"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
            memory, cache, gflops, size = map(float, run.stdout.split())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise InfraError(f"the ceilings benchmark does not run: {error}") from error
    return Ceilings(memory, cache, gflops, size)
