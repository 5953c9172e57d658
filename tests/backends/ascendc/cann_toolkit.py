"""A fake CANN toolkit for tests: a copy of `fake_cann` that ASCEND_HOME_PATH names, with its tools first in PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evokernel.backends.ascendc.build import build as build_simulator
from evokernel.backends.ascendc.cann import detect
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.core import paths
from evokernel.core.backend import Arguments, Array
from evokernel.core.records import ScalarArgument, Signature, Tensor

FAKE = Path(__file__).parent / "fake_cann"
BIN = FAKE / "bin"
DESCRIPTION = {
    "op": "KernelCustom",
    "language": "cpp",
    "input_desc": [
        {"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]},
        {"name": "y", "param_type": "required", "format": ["ND"], "type": ["float"]},
    ],
    "output_desc": [{"name": "out", "param_type": "required", "format": ["ND"], "type": ["float"]}],
    "attr": [{"name": "alpha", "param_type": "required", "type": "float"}],
}


VECTOR = {"dtype": "float32", "shape": (2048,)}
ADDING = Signature(
    inputs=(Tensor(name="x", **VECTOR), Tensor(name="y", **VECTOR)),
    scalars=(ScalarArgument(name="alpha", kind="float", value=0.5),),
    outputs=(Tensor(name="out", **VECTOR),),
)
"""Signature of the operator in cann_add.asc."""


class Toolkit:
    """A fake toolkit in its own folder, with the modes of its tools."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        shutil.copytree(FAKE, home, ignore=shutil.ignore_patterns("__pycache__"))
        (home / "version.cfg").write_text("# version: 1.0\nruntime_running_version=[7.6.0.1:8.0.RC3]\n")
        monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
        monkeypatch.setenv("PATH", os.pathsep.join([str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]))

    def modes(self, **modes: str) -> None:
        (self.home / "modes.json").write_text(json.dumps({name.replace("_", "-"): mode for name, mode in modes.items()}))

    def add_npu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Compile the runtime's libraries, and the simulator, which does the work of the NPU, before any tool runs in the sandbox."""
        (self.home / "lib64").mkdir()
        for source, name in (("acl.cpp", "libascendcl.so"), ("tensors.cpp", "libnnopbase.so")):
            command = ["g++", "-std=c++17", "-shared", "-fPIC", str(FAKE / "native" / source), "-o", str(self.home / "lib64" / name)]
            subprocess.run(command, check=True)
        build_simulator(parse_project({"kernel.asc": (FAKE.parent / "cann_add.asc").read_text()}, ADDING), self.home / "warm")
        (self.home / "cache.txt").write_text(str(paths.cache_folder()))
        monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join([str(self.home / "lib64"), *build_readable_paths()]))

    def detect(self) -> detect.Installation:
        return detect.inspect_environment(os.environ, ())


def build_readable_paths() -> list[str]:
    """Folders of the compiled simulator, for a path variable whose folders the sandbox makes readable."""
    return [str(place) for place in (paths.cache_folder(), paths.cache_folder() / "ascendc", paths.cache_folder() / "headers")]


def only(folder: Path, *names: str) -> str:
    """A folder for PATH that holds these tools and what their first line needs."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(BIN / name)
    for name in ("env", "python3", "bash", "sleep"):
        (folder / name).symlink_to(shutil.which(name) or sys.executable)
    return str(folder)


def pair(size: int = 64) -> Arguments:
    """x, y and alpha for an operator that adds."""
    x, y = np.arange(size, dtype=np.float32), np.full(size, 2, np.float32)
    out = np.full(size, np.nan, np.float32)
    return Arguments((Array("x", "float32", x), Array("y", "float32", y)), (("alpha", "float", 0.5),), (Array("out", "float32", out),))
