"""Backends with fixed texts, so that golden prompts change only if the prompts change."""

from evokernel.backends.cpp.backend import CppBackend


class Plain(CppBackend):
    """A C++ backend with an entry point and rules."""

    def entry_point(self, task):
        names = [t.name for t in (*task.signature.inputs, *task.signature.outputs)]
        return f"// as the harness calls it (once per size)\nvoid kernel({', '.join('float* ' + name for name in names)});"


class Traced(CppBackend):
    """A backend with Python kernels."""

    file_name = "kernel.py"

    def entry_point(self, task):
        names = [t.name for t in task.signature.inputs]
        return f"def kernel({', '.join(names)}):\n    ...\n    return {', '.join(t.name for t in task.signature.outputs)}"
