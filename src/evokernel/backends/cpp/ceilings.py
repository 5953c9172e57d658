"""Peak bandwidth and arithmetic throughput of this machine, measured once per compiler and flags and cached."""

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
from evokernel.backends.native.toolchain import compiler_version, find_compiler, processor_name, run_compiler
from evokernel.core import paths
from evokernel.core.backend import OptionalTool
from evokernel.core.errors import InfraError

log = logging.getLogger(__name__)
TIMEOUT_S = 60.0


class Ceilings(NamedTuple):
    """Measured peak rates of one core."""

    memory_gbs: float
    """Bytes read and written per second, from buffers larger than any cache."""
    cache_gbs: float
    """The same within the first-level cache; no kernel moves more."""
    gflops: float
    """Fused multiply-adds in float32, two operations each."""
    cache_bytes: float = 1 << 20
    """Data sets up to this size are compared with `cache_gbs`."""
    last_level_bytes: float = 0.0
    """Size of the last-level cache, where data may stay and move faster than `memory_gbs`; 0 if the system does not report it."""


NOMINAL = Ceilings(memory_gbs=10.0, cache_gbs=40.0, gflops=40.0)


@lru_cache
def load_or_measure_ceilings(compiler: str, flags: str) -> Ceilings:
    """Loads the ceilings from the cache folder, or measures them now (about half a second)."""
    path = find_compiler(compiler)
    if path is None:
        return NOMINAL
    source = (Path(__file__).parent / "ceilings.cpp").read_text()
    key = hashlib.sha256("\0".join([source, compiler_version(path), flags, processor_name()]).encode()).hexdigest()[:16]
    cache_file = paths.cache_folder() / "ceilings" / f"{key}.json"
    try:
        return Ceilings(**json.loads(cache_file.read_text()) | {"last_level_bytes": read_last_level_bytes()})
    except (OSError, ValueError, TypeError):
        ceilings = run_ceilings_benchmark(path, flags, source)
    try:
        paths.write_bytes(cache_file, json.dumps(ceilings._asdict()).encode())
    except OSError as error:
        log.debug("ceilings were not cached: %s", error)
    return ceilings


def latest_ceilings() -> Iterator[OptionalTool]:
    """Yields the ceilings that were measured last, with any compiler; nothing before the first timed kernel."""
    for cache_file in sorted((paths.cache_folder() / "ceilings").glob("*.json"), key=lambda path: path.stat().st_mtime)[-1:]:
        try:
            best = Ceilings(**json.loads(cache_file.read_text()))
            detail = f"{best.memory_gbs:.3g} GB/s from memory, {best.cache_gbs:.3g} from cache, {best.gflops:.3g} GFLOP/s on one core"
            yield OptionalTool("ceilings", True, detail)
        except (OSError, ValueError, TypeError):
            yield OptionalTool("ceilings", False, f"{cache_file} cannot be read; the next timing measures them again")


def run_ceilings_benchmark(path: str, flags: str, source: str) -> Ceilings:
    """Builds and runs the benchmark with one thread, without pinning it to a core."""
    with tempfile.TemporaryDirectory(
        prefix=f"evokernel-verify-{os.getpid()}-"
    ) as folder:  # the verifier removes folders of this name if this process is killed
        workdir = Path(folder)
        (workdir / "ceilings.cpp").write_text(source)
        default_options = [flag for flag in FLAGS if flag not in ("-shared", "-fvisibility=hidden")] + flags.split()
        for options in (default_options, [flag for flag in default_options if flag != "-march=native"]):
            compiler_run = run_compiler(path, [*options, "-w", "ceilings.cpp", "-o", "ceilings"], workdir, TIMEOUT_S)
            if compiler_run.code == 0:
                break
        else:
            raise InfraError(f"the ceilings benchmark does not build: {compiler_run.text[-300:]}")
        try:
            benchmark_run = subprocess.run([workdir / "ceilings"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
            memory, cache, gflops, size = map(float, benchmark_run.stdout.split())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise InfraError(f"the ceilings benchmark does not run: {error}") from error
    return Ceilings(memory, cache, gflops, size, read_last_level_bytes())


def read_last_level_bytes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> float:
    """Size of the largest cache that Linux reports, which writes it as `36608K`; 0 elsewhere."""
    texts = [file.read_text().strip() for file in folder.glob("index*/size")]
    return max((1024.0 * int(text[:-1]) for text in texts if text[:-1].isdigit() and text.endswith("K")), default=0.0)
