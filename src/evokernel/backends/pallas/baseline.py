"""The XLA baseline of a task: XLA's program for the reference, compiled and estimated like a candidate.

A baseline is computed once per task, chip and versions, and cached. There is no baseline if the reference cannot be converted to XLA, or
if the latency of its program cannot be estimated.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.backends.pallas import libtpu
from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.compiler import CompileError, CompileTimeout, compile_program
from evokernel.backends.pallas.environment import ENVIRONMENT
from evokernel.backends.pallas.schedule import Estimate, ScheduleError, estimate_schedule
from evokernel.core import paths
from evokernel.core.errors import InfraError
from evokernel.core.records import Task
from evokernel.sandbox import isolated_python

log = logging.getLogger(__name__)
METHOD = 1
"""Raise this number when the figures for the same task, chip and versions change: cached figures are then ignored."""
PACKAGES = ("jax", "jaxlib", "torch", "torchax")
SHIPPED_FILE = Path(__file__).parent / "baselines.json"
CONVERTER = ("evokernel.backends.pallas.torch_to_xla", "main")
PASSED_VARIABLES = ("PATH", "LANG", "LD_LIBRARY_PATH")
TOTAL_BUDGET_S, CONVERT_TIMEOUT_S, ESTIMATE_LIMIT_S = 180.0, 60.0, 20.0
"""Together they are one step of a verification, and must stay below the time after which a worker counts as hung."""
RETRY_S = 24 * 3600.0
"""After a timeout, try again the next day, when the machine may be less busy."""
PREFETCH_MARK = "cross_program_prefetch"
VARIANTS: tuple[Sequence[str], ...] = ((), ("--xla_max_cross_program_prefetches=0",))
"""By default XLA expects the previous program to hide the copy of a parameter into VMEM; a single program may be faster without that."""
SPARSECORE_MARK = 'execution_thread="sparsecore"'
NO_SPARSECORE_FLAGS = ("--xla_tpu_offload_gather_to_sparsecore=false",)
MIN_WAIT_SHARE = 0.01
"""Minimum share of waiting for copies that justifies a second compile, which can take minutes."""
TOLERATED_DOUBT = "decided by data"
"""A doubt that is accepted for a baseline: where data decides, as in the bounds checks of a gather, the slowest path is counted."""
NO_SCHEDULE_NOTE = re.compile(r"([\w.\-]+) \([\w\-]+\): no schedule")


class Baseline(NamedTuple):
    """The latency of XLA's program for a task, or the reason why there is none."""

    us: float | None
    """None if there is no baseline."""
    reason: str = ""
    """Why there is none."""
    notes: tuple[str, ...] = ()
    """Limitations of the estimate."""


class BaselineUnavailable(Exception):
    """There is no baseline; `is_temporary` if a later attempt may succeed."""

    def __init__(self, reason: str, is_temporary: bool = False) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary


_baselines: dict[str, Baseline] = {}


def baseline_us(task: Task, chip: Chip) -> float | None:
    """Latency in microseconds; None if there is no baseline, with the reason in the log."""
    return find_baseline(task, chip).us


def find_baseline(task: Task, chip: Chip) -> Baseline:
    """The baseline from this process's memory, the shipped file or the cache; otherwise computes it, one process at a time."""
    try:
        key = baseline_key(task, chip)
    except metadata.PackageNotFoundError as error:
        return Baseline(None, f"{error.name} is not installed: pip install 'evokernel[pallas]'")
    if key not in _baselines:
        cache_file = paths.cache_folder() / "baselines" / f"{key}.json"
        _baselines[key] = load_shipped_baselines().get(key) or read_cached(cache_file) or compute_and_cache(task, chip, cache_file)
        log_baseline(task, chip, _baselines[key])
    return _baselines[key]


def log_baseline(task: Task, chip: Chip, baseline: Baseline) -> None:
    """Logs a missing baseline or its limitations, once per process and task."""
    if baseline.us is None:
        log.warning("no XLA baseline of %s on %s: %s", task.id, chip.name, baseline.reason)
    elif baseline.notes:
        log.info("XLA baseline of %s on %s: %s", task.id, chip.name, "; ".join(baseline.notes))


def compute_and_cache(task: Task, chip: Chip, cache_file: Path) -> Baseline:
    """Computes and caches the baseline, unless another process did while we waited for the lock."""
    with paths.hold_lock(cache_file.with_suffix(".lock")):
        if cached := read_cached(cache_file):
            return cached
        log.info("estimating the latency of XLA's program for %s on %s", task.id, chip.name)
        try:
            result = compute_baseline(task, chip)
            write_cached(cache_file, result)
        except BaselineUnavailable as error:
            result = Baseline(None, str(error))
            write_cached(cache_file, result, **({"until": time.time() + RETRY_S} if error.is_temporary else {}))
        return result


def compute_baseline(task: Task, chip: Chip, budget_s: float = TOTAL_BUDGET_S) -> Baseline:
    """Converts, compiles and estimates the reference without looking at the cache; raises BaselineUnavailable."""
    deadline = time.monotonic() + budget_s
    prefix = f"evokernel-verify-{os.getpid()}-"  # the verifier removes folders of this name if this process is killed
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        return estimate_program(convert_reference(task, chip, Path(folder)), chip, Path(folder), deadline)


def conversion_request(task: Task, chip: Chip) -> dict[str, Any]:
    """Everything that the conversion depends on."""
    sizes = {size: task.sizes.get(size, {}) for size in ("bench", "small")}
    return {"source": task.source, **sizes, "atol": task.atol, "rtol": task.rtol, "tags": list(task.tags), "chip": chip.name}


def baseline_key(task: Task, chip: Chip) -> str:
    """A hash of everything that determines the figure. The emulator is not included: it runs the same compiler."""
    versions = {name: metadata.version(name).partition("+")[0] for name in PACKAGES}
    parts = [METHOD, conversion_request(task, chip), asdict(chip), versions, libtpu.VERSION]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def convert_reference(task: Task, chip: Chip, workdir: Path) -> bytes:
    """The reference as StableHLO. A separate process converts it: importing torch and jax would cost the worker seconds and a gigabyte."""
    into = workdir / "program"
    request = {
        **conversion_request(task, chip),
        "name": task.id,
        "bytes": task.work.bytes,
        "into": str(into),
        "cpu_s": int(2 * CONVERT_TIMEOUT_S),
    }
    inherited_variables = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    own = {"HOME": str(workdir), "TMPDIR": str(workdir), "OMP_NUM_THREADS": "1"}
    try:
        result = subprocess.run(
            isolated_python.isolated_command(*CONVERTER), input=json.dumps(request), capture_output=True, text=True,
            timeout=CONVERT_TIMEOUT_S, cwd=workdir, env={**inherited_variables, **own, **ENVIRONMENT},
        )  # fmt: skip
    except OSError as error:
        raise InfraError(f"cannot start the conversion of the reference to XLA: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise BaselineUnavailable(
            f"the conversion of the reference to XLA takes more than {CONVERT_TIMEOUT_S:g} s", is_temporary=True
        ) from error
    if result.returncode < 0:
        raise BaselineUnavailable(
            f"the conversion of the reference to XLA ended with {signal.Signals(-result.returncode).name}", is_temporary=True
        )
    if result.returncode or not into.is_file():
        raise BaselineUnavailable(f"the reference cannot be converted to XLA: {result.stdout or result.stderr[-300:]}")
    return into.read_bytes()


def estimate_program(program: bytes, chip: Chip, workdir: Path, deadline: float) -> Baseline:
    """The estimate of the fastest variant. SparseCores cannot be estimated, so a program that uses them is compiled again without."""
    best, doubts, module = fastest_variant(program, chip, workdir / "schedule", deadline)
    notes = best.notes
    if doubts and SPARSECORE_MARK in module:
        best, doubts, module = fastest_variant(program, chip, workdir / "tensor-core", deadline, NO_SPARSECORE_FLAGS)
        notes = (*best.notes, "compiled without the SparseCores, whose latency cannot be estimated")
    if doubts or not best.latency_us:
        raise BaselineUnavailable(
            f"the latency of XLA's program cannot be estimated: {'; '.join(doubts) or 'it contains no operation that takes time'}"
        )
    return Baseline(best.latency_us, notes=notes)


def fastest_variant(
    program: bytes, chip: Chip, into: Path, deadline: float, common_flags: Sequence[str] = ()
) -> tuple[Estimate, list[str], str]:
    """Compiles all variants; returns the estimate of the fastest, the doubts about it, and its module."""
    variants: list[tuple[Estimate, str]] = []
    for number, flags in enumerate(VARIANTS):
        folder = into / str(number)
        try:
            compile_program(program, chip.topology, folder, flags=(*common_flags, *flags), timeout_s=max(1.0, deadline - time.monotonic()))
            variants.append((estimate_schedule(folder, chip, limit_s=ESTIMATE_LIMIT_S), read_module_text(folder)))
        except CompileTimeout as error:
            if not variants:
                raise BaselineUnavailable("XLA takes too long to compile the reference", is_temporary=True) from error
            break
        except CompileError as error:
            raise BaselineUnavailable(f"XLA cannot compile the reference: {' '.join(str(error).split())[:300]}") from error
        except ScheduleError as error:
            raise BaselineUnavailable(f"the latency of XLA's program cannot be estimated: {error}") from error
        if PREFETCH_MARK not in variants[0][1] or copy_wait_us(variants[0][0]) < MIN_WAIT_SHARE * variants[0][0].latency_us:
            break  # the other variant would take the same time, or nearly
    best, module = min(variants, key=lambda pair: pair[0].latency_us)
    doubts = [] if best.is_certified else [note for note in best.notes if not is_tolerated_doubt(note, module)]
    return best, doubts, module


def copy_wait_us(estimated: Estimate) -> float:
    """Time spent waiting for copies that started earlier: about as much as another way to fetch parameters can save."""
    return sum(operation.latency_us for operation in estimated.operations if operation.kind == "copy-done")


def is_tolerated_doubt(note: str, module: str) -> bool:
    """Whether a doubt concerns details only. Operations on scalars run inside other operations and have no schedule."""
    if match := NO_SCHEDULE_NOTE.match(note):
        return re.search(rf"%{re.escape(match[1])} = \w+\[\]", module) is not None
    return TOLERATED_DOUBT in note


def read_module_text(folder: Path) -> str:
    """The scheduled module that the compiler dumped."""
    return "".join(path.read_text(errors="replace") for path in folder.glob("*-TLP-hlo.txt"))


@lru_cache
def load_shipped_baselines() -> dict[str, Baseline]:
    """Baselines of the starter operators, by key, so that a first run does not wait for them."""
    try:
        table = json.loads(SHIPPED_FILE.read_text())
    except OSError:
        return {}
    return {row["key"]: Baseline(row["us"], notes=tuple(row["notes"])) for row in table}


def read_cached(path: Path) -> Baseline | None:
    """The cached baseline; None if there is none, if it is out of date, or if it cannot be read."""
    try:
        row = json.loads(path.read_text())
        cached = Baseline(row["us"], row["reason"], tuple(row["notes"]))
        return cached if time.time() < row.get("until", math.inf) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cached(path: Path, baseline: Baseline, **more: float) -> None:
    """Writes a baseline to the cache; ignores disk errors."""
    try:
        paths.write_bytes(path, json.dumps({**baseline._asdict(), **more}).encode())
    except OSError as error:
        log.debug("cannot cache a baseline: %s", error)
