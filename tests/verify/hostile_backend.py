"""A backend for Python candidates: they can attack the candidate process in ways that a screened C++ kernel cannot express."""

import os
from pathlib import Path

from evokernel.core.backend import Arguments, Backend, Capabilities


class Kernel:
    """`kernel(arguments)` of the candidate."""

    def __init__(self, function):
        self.function = function

    def bind(self, arguments: Arguments):
        return lambda: self.function(arguments)


class Hostile(Backend):
    """Screens nothing, builds nothing."""

    def __init__(self, where: str = ""):
        self.where = where

    @property
    def capabilities(self):
        return Capabilities(sanitizer="every_run")

    def entry_point(self, task):
        return "def kernel(arguments)"

    def screen(self, task, candidate, workdir):
        return ()

    def build(self, task, candidate, workdir: Path):
        (workdir / "kernel.py").write_text(candidate.files["kernel.py"])

    def load(self, workdir: Path):
        scope = {"os": os, "where": self.where}
        exec((workdir / "kernel.py").read_text(), scope)
        return Kernel(scope["kernel"])
