"""The `zig` plug-in. Methods import what they need, because every candidate process loads this file and needs only `load`."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.backend import Backend, Capabilities, Kernel, OptionalTool
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Task

HOME, SOURCE, LIBRARY = Path(__file__).parent, "kernel.zig", "kernel.so"
OPTIMIZED, CHECKED = ("-O", "fast", "-fstrip"), ("-O", "debug", "-fllvm")
OPTIONS = ("-dynamic", "-mcpu=native", "-fsingle-threaded", "-fno-compiler-rt", "-fno-ubsan-rt", "-fno-stack-check", "-fno-stack-protector")
FOLDERS = ("--zig-lib-dir", "lib", "--cache-dir", "cache", "--global-cache-dir", "cache")
STD_PARTS = ("lang", "math", "mem", "meta", "simd", "sort", "Target", "SemanticVersion")


class ZigBackend(Backend):
    """Compiles Zig kernels and runs them on this machine's processor. `build_timeout_s` limits one compilation."""

    file_name = SOURCE

    def __init__(self, build_timeout_s: float = 60) -> None:
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.build_timeout_s = build_timeout_s

    def entry_point(self, task: Task) -> str:
        return self.render("declaration.zig.j2", task)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.native.source_text import find_pattern_violations

        for name, text in sorted(candidate.files.items()):
            yield from find_pattern_violations(name, text, HOME / "screen.toml")

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.native.elf import read_elf
        from evokernel.backends.native.object_checks import check_kernel_object
        from evokernel.backends.native.source_text import read_pattern_rules

        self.compile_kernel(task, candidate, workdir, OPTIMIZED)
        if library := read_elf(workdir / LIBRARY):
            allowed_symbols = re.compile(read_pattern_rules(HOME / "screen.toml")["symbols"]["allowed"], re.VERBOSE)
            check_kernel_object(library, allowed_symbols, "arithmetic and memory")

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.native.loader import NativeKernel

        ctypes.CDLL("libm.so.6", ctypes.RTLD_GLOBAL)  # kernels call its functions, but are not linked with it
        return NativeKernel(workdir / LIBRARY)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sanitizer="instrumented")

    def versions(self) -> dict[str, str]:
        from evokernel.backends.native.toolchain import processor_name

        return {"zig": import_module("importlib.metadata").version("ziglang"), "processor": processor_name()}

    def sanitizer(self) -> OptionalTool:
        return OptionalTool("sanitizer", True, "Zig's checks of indices, arithmetic and casts, run on every correct kernel")

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        self.compile_kernel(task, candidate, workdir, CHECKED)
        return {}

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        from evokernel.backends.native.source_text import quote_source_line, resolve_source_line

        if not (panic := re.search(r"^zig: (.*) at 0x([0-9a-f]+)$", report, re.MULTILINE)):
            return None
        line = resolve_source_line([f"{int(panic[2], 16) - 1:x}"], LIBRARY, SOURCE, workdir)
        reason = "out_of_bounds" if "out of bounds" in panic[1] else "undefined"
        return CandidateError(reason, panic[1] + quote_source_line(line, candidate.files[SOURCE]))

    def compile_kernel(self, task: Task, candidate: Candidate, workdir: Path, mode: tuple[str, ...]) -> None:
        """Compile the kernel with its harness and with the small library in `std.zig` instead of Zig's own."""
        from evokernel.backends.native.diagnostics import raise_for_failed_compile
        from evokernel.backends.native.source_text import require_single_source
        from evokernel.backends.native.toolchain import run_compiler
        from evokernel.core.paths import write_files

        text, home = require_single_source(candidate, SOURCE), Path(str(import_module("ziglang").__file__)).parent
        own_files = {"harness.zig": (HOME / "harness.zig").read_text(), "lib/std/std.zig": (HOME / "std.zig").read_text()}
        write_files(workdir, {SOURCE: text, "entry.zig": self.render("entry.zig.j2", task), **own_files})
        for part in (home / "lib" / "std").iterdir():
            if part.stem in STD_PARTS:
                (workdir / "lib" / "std" / part.name).symlink_to(part)
        command = ["build-lib", "harness.zig", f"-femit-bin={LIBRARY}", *OPTIONS, *mode, *FOLDERS]
        compiler_run = run_compiler(str(home / "zig"), command, workdir, self.build_timeout_s)
        try:
            raise_for_failed_compile(compiler_run, workdir / LIBRARY, {SOURCE: text}, self.build_timeout_s)
        except CandidateError as error:
            if re.search(r"^entry\.zig:\d+:\d+: error", compiler_run.text, re.MULTILINE):  # it calls the kernel as declared
                reason = "symbol" if re.search(r"no member named 'kernel'|'kernel' is not marked 'pub'", error.detail) else error.reason
                raise CandidateError(reason, f"{error.detail}\ndefine the entry point as declared:\n{self.entry_point(task)}") from error
            raise

    def render(self, template: str, task: Task) -> str:
        """Fill a template of this folder in with the task's signature."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(loader=FileSystemLoader(HOME), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        return environment.get_template(template).render(task.signature)
