"""The real TPU compiler, on a machine without a TPU: StableHLO in, the dumps of the final schedule out."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from evokernel.backends.pallas import driver, emulator, libtpu
from evokernel.core import paths
from evokernel.core.errors import InfraError

PACKAGES = ("jax", "jaxlib")
MEMORY_BYTES = 3 << 30
"""A process that holds more is replaced before the next program."""


class Refused(Exception):
    """The compiler does not take the program; the message is its own."""


class TooSlow(Refused):
    """The compiler did not finish in time."""


class Warm:
    """The process that compiles for us; one at a time, started when first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.driver: driver.Driver | None = None

    def compile(self, topology: str, program: bytes, options: bytes, into: Path, timeout_s: float) -> None:
        """Compiles and moves the dumps; a process that dies is given one more try, since the first may have died of something else."""
        with self.lock:
            for attempt in range(2):
                compiling = self.started()
                try:
                    refusal = compiling.compile(topology, program, options, timeout_s)
                except TimeoutError:
                    self.drop()
                    raise TooSlow(f"the compiler did not finish within {timeout_s:g} s") from None
                except driver.Died as error:
                    self.drop()
                    if attempt:
                        raise Refused(f"the compiler crashed: {error}") from None
                else:
                    break
            if refusal is not None:
                raise InfraError(refusal) if refusal.startswith("the driver") else Refused(refusal)
            into.mkdir(parents=True, exist_ok=True)
            for path in compiling.dumps.iterdir():
                shutil.move(path, into / path.name)

    def started(self) -> driver.Driver:
        if self.driver and self.driver.resident_bytes() > MEMORY_BYTES:
            self.close()
        if self.driver is None:
            self.driver = driver.Driver()
        return self.driver

    def drop(self) -> None:
        if self.driver:
            self.driver.kill()
        self.driver = None

    def close(self) -> None:
        if self.driver:
            self.driver.close()
        self.driver = None


_warm = Warm()


def _forget() -> None:
    """A forked child leaves the process to its parent."""
    global _warm
    if _warm.driver:
        _warm.driver.let_go()
    _warm = Warm()


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _warm.close())


def missing() -> str | None:
    """In one line, what keeps the compiler from running and the command that helps; None when it can run."""
    if sys.platform != "linux":
        return "the TPU compiler runs on Linux only (in a container or a virtual machine on other systems)"
    for name in PACKAGES:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            return f"{name} is not installed: pip install 'evokernel[pallas]'"
    return libtpu.missing() or emulator.missing() or driver.missing()


def versions() -> dict[str, str]:
    """All that decides what comes out of the compiler, and the emulator it runs in."""
    found = {name: metadata.version(name) for name in PACKAGES}
    runner = emulator.find()
    emulated = {"emulator": f"{runner.name} {runner.version}".strip()} if runner and runner is not emulator.NATIVE else {}
    return {**found, "libtpu": libtpu.VERSION, **emulated}


def compile_program(program: bytes, topology: str, into: Path, *, flags: Sequence[str] = (), timeout_s: float = 120) -> None:
    """Compiles for the chips of `topology` and leaves the dumps of the final schedule in `into`.

    Flags are options of the compiler, `--name=value`. Raises Refused with the compiler's words, InfraError when it cannot be run.
    """
    if trouble := missing():
        raise InfraError(trouble)
    _warm.compile(topology, program, base_options() + b"".join(map(option, flags)), into, timeout_s)


def close() -> None:
    """Ends the warm process; the next program starts another."""
    with _warm.lock:
        _warm.close()


@lru_cache
def base_options() -> bytes:
    """The options jax would send, the same on every machine.

    Another process asks jax for them, once per version: importing it takes longer than a compile.
    """
    path = paths.tools_folder() / f"compile-options-{metadata.version('jax')}-{metadata.version('jaxlib')}"
    if path.is_file():
        return path.read_bytes()
    code = "import sys; from evokernel.backends.pallas.lower import compile_options; sys.stdout.buffer.write(compile_options())"
    plain = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**plain, "JAX_PLATFORMS": "cpu"})
    if done.returncode:
        raise InfraError(f"jax does not say its compile options: {done.stderr.decode(errors='replace')[-500:]}")
    paths.write_bytes(path, done.stdout)
    return done.stdout


def option(flag: str) -> bytes:
    """One `--name=value` as it stands in serialised options: an entry of a map, which may follow the rest."""
    name, _, value = flag.removeprefix("--").partition("=")
    entry = field(1, name.encode()) + field(2, field(1, value.encode()))
    return field(7, entry)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes in protocol buffers."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """Seven bits per byte, lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
