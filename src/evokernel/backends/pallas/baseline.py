"""What XLA makes of a task's reference, compiled and priced like a candidate: the time a kernel is held against.

Found once per task, chip and versions, and kept. A reference that has no program, or whose program has no price, has no baseline.
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
from evokernel.backends.pallas.compiler import Refused, TooSlow, compile_program
from evokernel.backends.pallas.environment import ENVIRONMENT
from evokernel.backends.pallas.schedule import Estimate, ScheduleError, estimate
from evokernel.core import isolated_python, paths
from evokernel.core.errors import InfraError
from evokernel.core.records import Task

log = logging.getLogger(__name__)
METHOD = 1
"""To be raised whenever other figures come out for the same task, chip and versions: those that were kept are then not used."""
PACKAGES = ("jax", "jaxlib", "torch", "torchax")
SHIPPED = Path(__file__).parent / "baselines.json"
CONVERTER = ("evokernel.backends.pallas.torch_to_xla", "main")
PASSED_ON = ("PATH", "LANG", "LD_LIBRARY_PATH")
BUDGET_S, CONVERT_S, PRICE_S = 180.0, 60.0, 20.0
"""All of it together is one step of a verification, and must not be taken for a judge that hangs."""
RETRY_S = 24 * 3600.0
"""What was too slow is tried again the next day, when the machine may be less busy."""
PREFETCH = "cross_program_prefetch"
VARIANTS: tuple[Sequence[str], ...] = ((), ("--xla_max_cross_program_prefetches=0",))
"""By default the program before this one is expected to hide the copy of a parameter into VMEM; alone, it may be faster without."""
OFFLOADED = 'execution_thread="sparsecore"'
TENSOR_CORE = ("--xla_tpu_offload_gather_to_sparsecore=false",)
WORTHWHILE = 0.01
"""Share of the time that has to be at stake for a second compile, which can take minutes."""
TOLERATED = "decided by data"
"""A doubt that a baseline may come with: where data decides, such as in the bounds checks of a gather, the slowest way is counted."""
UNSCHEDULED = re.compile(r"([\w.\-]+) \([\w\-]+\): no schedule")


class Baseline(NamedTuple):
    """What was found out."""

    us: float | None
    """None when there is no baseline."""
    reason: str = ""
    """Why there is none."""
    notes: tuple[str, ...] = ()
    """What its price leaves open."""


class Unavailable(Exception):
    """There is no baseline; `passing` when that may lie in the moment."""

    def __init__(self, reason: str, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


_found: dict[str, Baseline] = {}


def baseline_us(task: Task, chip: Chip) -> float | None:
    """Microseconds; None when there is no baseline, with a line in the log that says why."""
    return baseline(task, chip).us


def baseline(task: Task, chip: Chip) -> Baseline:
    """From what this process knows, what is shipped, what is kept, else found out now, by one process at a time."""
    try:
        key = key_of(task, chip)
    except metadata.PackageNotFoundError as error:
        return Baseline(None, f"{error.name} is not installed: pip install 'evokernel[pallas]'")
    if key not in _found:
        kept = paths.cache_folder() / "baselines" / f"{key}.json"
        _found[key] = shipped().get(key) or read(kept) or found_once(task, chip, kept)
        report(task, chip, _found[key])
    return _found[key]


def report(task: Task, chip: Chip, found: Baseline) -> None:
    """Once per process and task."""
    if found.us is None:
        log.warning("no XLA baseline of %s on %s: %s", task.id, chip.name, found.reason)
    elif found.notes:
        log.info("XLA baseline of %s on %s: %s", task.id, chip.name, "; ".join(found.notes))


def found_once(task: Task, chip: Chip, kept: Path) -> Baseline:
    """Finds it out and keeps it, unless somebody else did while we waited for the lock."""
    with paths.hold_lock(kept.with_suffix(".lock")):
        if known := read(kept):
            return known
        log.info("pricing XLA's program for %s on %s", task.id, chip.name)
        try:
            found = worked_out(task, chip)
            keep(kept, found)
        except Unavailable as error:
            found = Baseline(None, str(error))
            keep(kept, found, **({"until": time.time() + RETRY_S} if error.passing else {}))
        return found


def worked_out(task: Task, chip: Chip, budget_s: float = BUDGET_S) -> Baseline:
    """Converted, compiled and priced now, whatever is known; raises Unavailable."""
    deadline = time.monotonic() + budget_s
    with tempfile.TemporaryDirectory(prefix=f"evokernel-judge-{os.getpid()}-") as folder:  # a name the judge removes if this is killed
        return priced(converted(task, chip, Path(folder)), chip, Path(folder), deadline)


def order_for(task: Task, chip: Chip) -> dict[str, Any]:
    """All that the conversion depends on."""
    sizes = {size: task.sizes.get(size, {}) for size in ("bench", "small")}
    return {"source": task.source, **sizes, "atol": task.atol, "rtol": task.rtol, "tags": list(task.tags), "chip": chip.name}


def key_of(task: Task, chip: Chip) -> str:
    """Changes with all that decides the figure. The emulator is not part of it: it runs the same compiler."""
    versions = {name: metadata.version(name).partition("+")[0] for name in PACKAGES}
    parts = [METHOD, order_for(task, chip), asdict(chip), versions, libtpu.VERSION]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def converted(task: Task, chip: Chip, workdir: Path) -> bytes:
    """The reference as StableHLO, made by a process of its own: torch and jax would cost the judge seconds and a gigabyte."""
    into = workdir / "program"
    order = {**order_for(task, chip), "name": task.id, "bytes": task.work.bytes, "into": str(into), "cpu_s": int(2 * CONVERT_S)}
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {"HOME": str(workdir), "TMPDIR": str(workdir), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            isolated_python.isolated_command(*CONVERTER), input=json.dumps(order), capture_output=True, text=True,
            timeout=CONVERT_S, cwd=workdir, env={**passed, **own, **ENVIRONMENT},
        )  # fmt: skip
    except OSError as error:
        raise InfraError(f"the conversion of the reference cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"converting the reference to XLA takes more than {CONVERT_S:g} s", passing=True) from error
    if done.returncode < 0:
        raise Unavailable(f"converting the reference to XLA died of {signal.Signals(-done.returncode).name}", passing=True)
    if done.returncode or not into.is_file():
        raise Unavailable(f"the reference cannot be converted to XLA: {done.stdout or done.stderr[-300:]}")
    return into.read_bytes()


def priced(program: bytes, chip: Chip, workdir: Path, deadline: float) -> Baseline:
    """The faster of the ways to compile it. What XLA hands to SparseCores has no price: then it has to do without them."""
    best, doubts, module = cheapest(program, chip, workdir / "schedule", deadline)
    notes = best.notes
    if doubts and OFFLOADED in module:
        best, doubts, module = cheapest(program, chip, workdir / "tensor-core", deadline, TENSOR_CORE)
        notes = (*best.notes, "without the SparseCores, for which there is no price")
    if doubts or not best.us:
        raise Unavailable(f"XLA's program has no price: {'; '.join(doubts) or 'nothing in it takes time'}")
    return Baseline(best.us, notes=notes)


def cheapest(program: bytes, chip: Chip, into: Path, deadline: float, always: Sequence[str] = ()) -> tuple[Estimate, list[str], str]:
    """Of the ways to compile it: the estimate, what stands against believing it, and the module."""
    found: list[tuple[Estimate, str]] = []
    for number, flags in enumerate(VARIANTS):
        folder = into / str(number)
        try:
            compile_program(program, chip.topology, folder, flags=(*always, *flags), timeout_s=max(1.0, deadline - time.monotonic()))
            found.append((estimate(folder, chip, limit_s=PRICE_S), module_text(folder)))
        except TooSlow as error:
            if not found:
                raise Unavailable("XLA takes too long to compile the reference", passing=True) from error
            break
        except Refused as error:
            raise Unavailable(f"XLA does not compile the reference: {' '.join(str(error).split())[:300]}") from error
        except ScheduleError as error:
            raise Unavailable(f"XLA's program has no price: {error}") from error
        if PREFETCH not in found[0][1] or waited_us(found[0][0]) < WORTHWHILE * found[0][0].us:
            break  # the other way would be the same, or next to it
    best, module = min(found, key=lambda pair: pair[0].us)
    doubts = [] if best.certified else [note for note in best.notes if not tolerated(note, module)]
    return best, doubts, module


def waited_us(found: Estimate) -> float:
    """For copies that were started earlier: about what another way of fetching parameters can save."""
    return sum(operation.us for operation in found.operations if operation.kind == "copy-done")


def tolerated(note: str, module: str) -> bool:
    """Whether a doubt is about details only; operations on single numbers run inside others and have no schedule of their own."""
    if found := UNSCHEDULED.match(note):
        return re.search(rf"%{re.escape(found[1])} = \w+\[\]", module) is not None
    return TOLERATED in note


def module_text(folder: Path) -> str:
    """The compiled program, as the compiler dumped it."""
    return "".join(path.read_text(errors="replace") for path in folder.glob("*-TLP-hlo.txt"))


@lru_cache
def shipped() -> dict[str, Baseline]:
    """Those of the starter operators, by key, so that the first run does not have to wait for them."""
    try:
        table = json.loads(SHIPPED.read_text())
    except OSError:
        return {}
    return {row["key"]: Baseline(row["us"], notes=tuple(row["notes"])) for row in table}


def read(path: Path) -> Baseline | None:
    """What is kept; None when nothing is, or when it cannot be read."""
    try:
        row = json.loads(path.read_text())
        found = Baseline(row["us"], row["reason"], tuple(row["notes"]))
        return found if time.time() < row.get("until", math.inf) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(path: Path, found: Baseline, **more: float) -> None:
    """If the disk allows."""
    try:
        paths.write_bytes(path, json.dumps({**found._asdict(), **more}).encode())
    except OSError as error:
        log.debug("a baseline is not kept: %s", error)
