"""A backend for Python and C++ candidates that are not screened, so that only the sandbox protects; kernel.cpp is screened."""

from pathlib import Path

import hostile_tools

from evokernel.backends.cpp.backend import CppBackend
from evokernel.core.backend import Arguments, Backend, Capabilities
from evokernel.core.errors import CandidateError

SCREENED, NATIVE, PYTHON = "kernel.cpp", "kernel.cc", "kernel.py"


class PythonKernel:
    """Acts when it is loaded or called, as the file's first line says; then runs `kernel(arguments)` if there is one, else a copy."""

    def __init__(self, text: str) -> None:
        self.code = compile(text, PYTHON, "exec")
        self.scope: dict[str, object] = {"__name__": "candidate"}
        self.acts_when_called = text.startswith("# at call")
        if not self.acts_when_called:
            exec(self.code, self.scope)

    def bind(self, arguments: Arguments):
        return lambda: self.call(arguments)

    def call(self, arguments: Arguments) -> None:
        if self.acts_when_called:
            exec(self.code, self.scope)
        kernel = self.scope.get("kernel", copy)
        kernel(arguments)  # type: ignore[operator]


def copy(arguments: Arguments) -> None:
    """Copy the input, which is wrong for the test task."""
    arguments.outputs[0].data[...] = arguments.inputs[0].data


class MixedBackend(Backend):
    """The file name decides: kernel.cpp is verified as by `cpp`, kernel.cc and kernel.py are not screened."""

    def __init__(self, where: str = "", token: str = "", port: str = "") -> None:
        self.cpp = CppBackend()
        hostile_tools.SCENE |= {"where": where, "token": token, "port": port}

    def unavailable_reason(self):
        return self.cpp.unavailable_reason()

    def versions(self):
        return self.cpp.versions()

    @property
    def capabilities(self):
        return Capabilities(sanitizer="every_run")

    def entry_point(self, task):
        return self.cpp.entry_point(task)

    def screen(self, task, candidate, workdir):
        return self.cpp.screen(task, candidate, workdir) if SCREENED in candidate.files else ()

    def build(self, task, candidate, workdir: Path):
        if SCREENED in candidate.files:
            self.cpp.build(task, candidate, workdir)
        for name in {NATIVE, PYTHON} & set(candidate.files):
            (workdir / name).write_text(candidate.files[name])
        if NATIVE in candidate.files:
            self.build_native(workdir)

    def build_native(self, workdir: Path) -> None:
        from evokernel.backends.native.toolchain import find_compiler, run_compiler

        result = run_compiler(find_compiler("") or "", ["-O1", "-w", "-fPIC", "-shared", NATIVE, "-o", "kernel.so"], workdir, 60.0)
        if result.code:
            raise CandidateError("compile_error", result.text[:2000])

    def load(self, workdir: Path):
        if (workdir / PYTHON).exists():
            return PythonKernel((workdir / PYTHON).read_text())
        return self.cpp.load(workdir)
