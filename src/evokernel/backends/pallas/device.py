"""A real TPU, where there is one: the same traced program and XLA's own, timed on it in turn.

Nothing of the candidate but its program is here, so this process can hold the clock itself. It is started with an order on its stdin.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.backends.pallas.chips import Chip, chips
from evokernel.core.devices import hold_device
from evokernel.core.errors import CandidateError, InfraError

CLOCK = "tpu"
VENDOR = "0x1ae0"
NODES = ("accel[0-9]*", "vfio/[0-9]*")
WINDOW_S, WINDOWS = 0.02, 12
TIMEOUT_S = 300.0
READY = "the reference runs"
CODE = "from evokernel.backends.pallas.device import main; main()"


class Measured(NamedTuple):
    """Microseconds per call, paired one to one."""

    samples_us: tuple[float, ...]
    baseline_us: tuple[float, ...]


def present(devices: Path = Path("/dev"), buses: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether this machine has a TPU, as far as the system shows it; no driver is loaded to find out."""
    if not any(path for pattern in NODES for path in devices.glob(pattern)):
        return False
    vendors = (path / "vendor" for path in buses.iterdir()) if buses.is_dir() else iter(())
    return any(path.read_text().strip() == VENDOR for path in vendors if path.exists())


def measure(program: Path, order: Mapping[str, Any], chip: Chip, platform: str = "tpu") -> Measured:
    """Times a traced program and the reference's, in a process of their own."""
    given = {**order, "program": str(program), "kind": chip.kind, "platform": platform}
    try:
        with hold_device(platform):
            done = subprocess.run(
                [sys.executable, "-P", "-c", CODE], input=json.dumps(given), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
    except subprocess.TimeoutExpired as error:
        raise CandidateError("timeout", f"the TPU did not finish within {TIMEOUT_S:g} s") from error
    if done.returncode:
        last = next(reversed(done.stderr.strip().splitlines()), "it said nothing")
        if READY in done.stdout:
            raise CandidateError("crash", f"the kernel does not run on the TPU: {last}")
        raise InfraError(f"the TPU could not be used: {last}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found["kind"] != chip.kind and platform == "tpu":
        names = [one.name for one in chips().values() if one.kind == found["kind"]]
        raise InfraError(f"this machine has a {found['kind']}, not a {chip.kind}: set backend.chip={names[0] if names else '…'}")
    return Measured(tuple(found["samples_us"]), tuple(found["baseline_us"]))


def main() -> None:
    """Reads an order on stdin, writes what was measured on stdout."""
    import os

    order = json.load(sys.stdin)
    os.environ["JAX_PLATFORMS"] = order["platform"]
    import jax
    from jax._src.core import jaxpr_as_fun

    from evokernel.backends.pallas import torch_to_xla
    from evokernel.backends.pallas.program import read
    from evokernel.reference.module import Reference

    sample = Reference(order["source"], overrides=order["bench"]).sample(0)
    arrays = [torch_to_xla.array(tensor) for _, tensor in sample.inputs + sample.params]
    candidate, reference = jaxpr_as_fun(read(Path(order["program"]))), torch_to_xla.function(sample)
    with jax.default_matmul_precision(torch_to_xla.precision(sample)):
        base = looped(reference, arrays)
        sys.stdout.write(READY + "\n")
        sys.stdout.flush()
        samples = in_turn([looped(candidate, arrays), base])
    found = {"kind": jax.devices()[0].device_kind, "samples_us": samples[0], "baseline_us": samples[1]}
    sys.stdout.write(json.dumps(found) + "\n")


def looped(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[int], float]:
    """Seconds for n calls inside one program, because starting a program takes longer than many a kernel.

    Each call waits for the one before: its inputs are tied to that one's outputs, so that nothing is moved out of the loop.
    """
    import jax

    def run(count: Any, given: Any) -> Any:
        def step(_: Any, last: Any) -> Any:
            tied, _ = jax.lax.optimization_barrier((given, last))
            return list(function(*tied))

        return jax.lax.fori_loop(0, count, step, list(function(*given)))

    compiled = jax.jit(run)

    def timed(count: int) -> float:
        started = time.perf_counter()
        jax.block_until_ready(compiled(count, list(arrays)))
        return time.perf_counter() - started

    timed(1)
    return timed


def in_turn(timed: Sequence[Callable[[int], float]]) -> list[list[float]]:
    """Windows A B A B; the time of an empty loop, which starting the program takes, is taken off."""
    counts, starts = [], []
    for run in timed:
        starts.append(min(run(0) for _ in range(5)))
        once = max((run(20) - starts[-1]) / 20, 1e-7)
        counts.append(max(10, min(100_000, int(WINDOW_S / once))))
    samples: list[list[float]] = [[] for _ in timed]
    for _ in range(WINDOWS):
        for run, count, start, kept in zip(timed, counts, starts, samples):
            kept.append(max(run(count) - start, 1e-9) / count * 1e6)
    return samples
