"""Times a candidate's traced program and XLA's program for the reference alternately on the TPU of this machine.

The timing runs in another process, which receives a request on stdin. That process executes the traced program and no other code of the
candidate, so it can read the clock itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.backends.pallas.chips import Chip, load_chips
from evokernel.core.devices import hold_device
from evokernel.core.errors import CandidateError, InfraError

CLOCK = "tpu"
VENDOR = "0x1ae0"
DEVICE_NODES = ("accel[0-9]*", "vfio/[0-9]*")
WINDOW_S, WINDOWS = 0.02, 12
TIMEOUT_S = 300.0
READY_LINE = "the reference runs"
PROCESS_CODE = "from evokernel.backends.pallas.tpu_timing import main; main()"


class PairedTimes(NamedTuple):
    """Microseconds per call; sample n of the candidate and sample n of the baseline are a pair."""

    samples_us: tuple[float, ...]
    baseline_us: tuple[float, ...]


def has_tpu(devices: Path = Path("/dev"), buses: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether the operating system lists a TPU; loads no device driver."""
    if not any(path for pattern in DEVICE_NODES for path in devices.glob(pattern)):
        return False
    vendors = (path / "vendor" for path in buses.iterdir()) if buses.is_dir() else iter(())
    return any(path.read_text().strip() == VENDOR for path in vendors if path.exists())


def measure_on_tpu(program: Path, request: Mapping[str, Any], chip: Chip, platform: str = "tpu") -> PairedTimes:
    """Times a traced program and the reference's program in a new process."""
    full_request = {**request, "program": str(program), "kind": chip.kind, "platform": platform}
    try:
        with hold_device(platform):
            result = subprocess.run(
                [sys.executable, "-P", "-c", PROCESS_CODE],
                input=json.dumps(full_request),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise CandidateError("timeout", f"the kernel did not finish on the TPU within {TIMEOUT_S:g} s") from error
    if result.returncode:
        last_line = next(reversed(result.stderr.strip().splitlines()), "no error message")
        if READY_LINE in result.stdout:
            raise CandidateError("crash", f"the kernel failed on the TPU: {last_line}")
        raise InfraError(f"timing on the TPU failed: {last_line}")
    times = json.loads(result.stdout.splitlines()[-1])
    if times["kind"] != chip.kind and platform == "tpu":
        names = [one.name for one in load_chips().values() if one.kind == times["kind"]]
        raise InfraError(f"this machine has a {times['kind']}, not a {chip.kind}: set backend.chip={names[0] if names else '…'}")
    return PairedTimes(tuple(times["samples_us"]), tuple(times["baseline_us"]))


def main() -> None:
    """Reads a request from stdin and writes the measured times to stdout."""
    import os

    order = json.load(sys.stdin)
    os.environ["JAX_PLATFORMS"] = order["platform"]
    import jax
    from jax._src.core import jaxpr_as_fun

    from evokernel.backends.pallas import torch_to_xla
    from evokernel.backends.pallas.program_codec import read_program
    from evokernel.reference.module import Reference

    sample = Reference(order["source"], overrides=order["bench"]).sample(0)
    arrays = [torch_to_xla.to_jax(tensor) for _, tensor in sample.inputs + sample.params]
    candidate, reference = jaxpr_as_fun(read_program(Path(order["program"]))), torch_to_xla.make_jax_function(sample)
    with jax.default_matmul_precision(torch_to_xla.matmul_precision(sample)):
        base = make_timed_loop(reference, arrays)
        sys.stdout.write(READY_LINE + "\n")
        sys.stdout.flush()
        samples = time_alternately([make_timed_loop(candidate, arrays), base])
    times = {"kind": jax.devices()[0].device_kind, "samples_us": samples[0], "baseline_us": samples[1]}
    sys.stdout.write(json.dumps(times) + "\n")


def make_timed_loop(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[int], float]:
    """A function that returns the seconds for n calls inside one program, because starting a program takes longer than many kernels.

    An optimization barrier makes the inputs of each call depend on the outputs of the previous one, so that XLA cannot move a call out
    of the loop.
    """
    import jax

    def run(count: Any, inputs: Any) -> Any:
        def step(_: Any, previous: Any) -> Any:
            dependent_inputs, _ = jax.lax.optimization_barrier((inputs, previous))
            return list(function(*dependent_inputs))

        return jax.lax.fori_loop(0, count, step, list(function(*inputs)))

    program = jax.jit(run)

    def time_calls(count: int) -> float:
        start = time.perf_counter()
        jax.block_until_ready(program(count, list(arrays)))
        return time.perf_counter() - start

    time_calls(1)
    return time_calls


def time_alternately(timed_loops: Sequence[Callable[[int], float]]) -> list[list[float]]:
    """Microseconds per call in alternating windows A B A B, minus the time of an empty loop (the start of the program)."""
    counts, starts = [], []
    for run in timed_loops:
        starts.append(min(run(0) for _ in range(5)))
        once = max((run(20) - starts[-1]) / 20, 1e-7)
        counts.append(max(10, min(100_000, int(WINDOW_S / once))))
    samples: list[list[float]] = [[] for _ in timed_loops]
    for _ in range(WINDOWS):
        for run, count, start, times in zip(timed_loops, counts, starts, samples):
            times.append(max(run(count) - start, 1e-9) / count * 1e6)
    return samples
