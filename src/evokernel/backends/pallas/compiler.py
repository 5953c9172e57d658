"""Compiles StableHLO with the real TPU compiler, on a machine without a TPU, and collects the dumps of the final schedule."""

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

from evokernel.backends.pallas import compiler_process, emulator, libtpu
from evokernel.core import paths
from evokernel.core.errors import InfraError

PACKAGES = ("jax", "jaxlib")
MEMORY_BYTES = 3 << 30
"""A compiler process that uses more memory than this is replaced before the next program."""


LINE_OPTION = "--xla_mosaic_enable_llo_source_annotations=true"
"""Makes the compiler write the source line of each operation into the dumped schedule, which is otherwise the same."""


class CompileError(Exception):
    """The compiler rejected the program; the message is the compiler's."""


class CompileTimeout(CompileError):
    """The compiler did not finish within the time limit."""


class SharedCompiler:
    """The one compiler process that all threads share; it starts with the first program."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.current: compiler_process.CompilerProcess | None = None

    def compile(self, topology: str, program: bytes, options: bytes, into: Path, timeout_s: float) -> None:
        """Compiles a program and moves its dumps into `into`.

        If the process dies, a second one tries again: the program may not have been the cause.
        """
        with self.lock:
            for attempt in range(2):
                process = self.get_process()
                try:
                    rejection = process.compile(topology, program, options, timeout_s)
                except TimeoutError:
                    self.kill()
                    raise CompileTimeout(f"the compiler did not finish within {timeout_s:g} s") from None
                except compiler_process.ProcessDied as error:
                    self.kill()
                    if attempt:
                        raise CompileError(f"the compiler crashed: {error}") from None
                else:
                    break
            if rejection is not None:
                raise InfraError(rejection) if rejection.startswith(compiler_process.PROTOCOL_ERROR) else CompileError(rejection)
            into.mkdir(parents=True, exist_ok=True)
            for path in process.dumps.iterdir():
                shutil.move(path, into / path.name)

    def get_process(self) -> compiler_process.CompilerProcess:
        if self.current and self.current.resident_bytes() > MEMORY_BYTES:
            self.close()
        if self.current is None:
            self.current = compiler_process.CompilerProcess()
        return self.current

    def kill(self) -> None:
        if self.current:
            self.current.kill()
        self.current = None

    def close(self) -> None:
        if self.current:
            self.current.close()
        self.current = None


_shared_compiler = SharedCompiler()


def _reset_after_fork() -> None:
    """A forked process leaves the compiler process to its parent."""
    global _shared_compiler
    if _shared_compiler.current:
        _shared_compiler.current.close_pipes()
    _shared_compiler = SharedCompiler()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(lambda: _shared_compiler.close())


def unavailable_reason() -> str | None:
    """One line with the reason why the compiler cannot run and the command that fixes it; None if it can run."""
    if sys.platform != "linux":
        return "the TPU compiler requires Linux; on other systems use a container or a virtual machine"
    for name in PACKAGES:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            return f"{name} is not installed: pip install 'evokernel[pallas]'"
    return libtpu.unavailable_reason() or emulator.unavailable_reason() or compiler_process.unavailable_reason()


def toolchain_versions() -> dict[str, str]:
    """Versions of all packages that determine the compiler's output, and of the emulator that runs it."""
    packages = {name: metadata.version(name) for name in PACKAGES}
    runner = emulator.find_emulator()
    emulation = {"emulator": f"{runner.name} {runner.version}".strip()} if runner and runner is not emulator.NATIVE else {}
    return {**packages, "libtpu": libtpu.VERSION, **emulation}


def compile_program(program: bytes, topology: str, into: Path, *, flags: Sequence[str] = (), timeout_s: float = 120) -> None:
    """Compiles for the chips of `topology` and writes the dumps of the final schedule into `into`.

    Flags are options of the compiler, `--name=value`. Raises CompileError with the compiler's message, and InfraError if the compiler
    cannot run.
    """
    if reason := unavailable_reason():
        raise InfraError(reason)
    _shared_compiler.compile(topology, program, base_options() + b"".join(map(encode_option, flags)), into, timeout_s)


def shut_down() -> None:
    """Ends the shared compiler process; the next program starts another."""
    with _shared_compiler.lock:
        _shared_compiler.close()


@lru_cache
def base_options() -> bytes:
    """The compile options that jax would send, the same on every machine.

    Another process queries jax for them, once per version, because importing jax takes longer than a compile.
    """
    path = paths.tools_folder() / f"compile-options-{metadata.version('jax')}-{metadata.version('jaxlib')}"
    if path.is_file():
        return path.read_bytes()
    code = "import sys; from evokernel.backends.pallas import lower; sys.stdout.buffer.write(lower.default_compile_options())"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**environment, "JAX_PLATFORMS": "cpu"})
    if result.returncode:
        raise InfraError(f"cannot query jax for its compile options: {result.stderr.decode(errors='replace')[-500:]}")
    paths.write_bytes(path, result.stdout)
    return result.stdout


def encode_option(flag: str) -> bytes:
    """One `--name=value` in the form of serialised options: a map entry, which may follow all other fields."""
    name, _, value = flag.removeprefix("--").partition("=")
    entry = encode_field(1, name.encode()) + encode_field(2, encode_field(1, value.encode()))
    return encode_field(7, entry)


def encode_field(number: int, data: bytes) -> bytes:
    """A length-delimited field in protocol buffer encoding."""
    return bytes([number << 3 | 2]) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """An integer in protocol buffer encoding: seven bits per byte, lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
