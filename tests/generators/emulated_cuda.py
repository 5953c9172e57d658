"""Compiles CUDA kernels for the CPU and compares what they compute with their references, where there is no GPU."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import torch
from interpreted_kernels import compare_outputs

from evokernel.reference.module import Reference

HEADER = Path(__file__).parent / "cuda_on_cpu.h"
LAUNCH = re.compile(r"([\w:]+(?:<[\w, ]+>)?)<<<(.+)>>>\((.*)\);")
SHARED = re.compile(r"extern __shared__ .*\bunsigned char (\w+)\[\];")
INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
SCALARS = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_bool}
MISALIGNED_TRAPS = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")
"""A pack at an address that a GPU refuses ends the process, as it would end the kernel."""
GUARD = 64
"""Elements before and after an output that a kernel must not write."""


def translate(name: str, text: str) -> str:
    """The kernel as C++ in a namespace of its own, its launch function under a name of its own."""
    text = LAUNCH.sub(r"emulate(\2, [=] { \1(\3); });", text)
    text = SHARED.sub(r"unsigned char* \1 = dynamic_shared;", INCLUDE.sub("", text))
    return f"namespace case_{name} {{\n{text.replace(' void kernel(', f' void kernel_{name}(')}\n}}"


def build_library(kernels: Mapping[str, str], folder: Path) -> ctypes.CDLL:
    """Compiles all kernels into one library."""
    source = "\n".join([HEADER.read_text(), *(translate(name, text) for name, text in kernels.items())])
    (folder / "all.cpp").write_text(source)
    command = ["g++", "-std=c++17", "-O0", "-w", *MISALIGNED_TRAPS, "-shared", "-fPIC", "all.cpp", "-o", "all.so"]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not finished.returncode, finished.stderr[:4000]
    return ctypes.CDLL(str(folder / "all.so"))


def find_difference(library: ctypes.CDLL, name: str, source: str) -> str:
    """Empty if a kernel computes the reference's outputs, and writes nothing else."""
    reference = Reference(source, "task.py", {})
    sample = reference.sample(0)
    expected = [one.tensor.detach() for one in reference.run(sample)]
    inputs = [one.tensor.detach().contiguous() for one in (*sample.inputs, *sample.params)]
    guarded = [torch.full((one.numel() + 2 * GUARD,), 77).to(one.dtype) for one in expected]
    outputs = [memory[GUARD:-GUARD].reshape(one.shape) for memory, one in zip(guarded, expected)]
    arguments: list[object] = []
    for tensor in inputs:
        arguments += tensor_arguments(tensor)
    arguments += [SCALARS[number.kind](number.value) for number in sample.scalars]
    for tensor in outputs:
        arguments += tensor_arguments(tensor)
    getattr(library, f"kernel_{name}")(*arguments, ctypes.c_void_p(0))
    for memory in guarded:
        if any((part != torch.tensor(77).to(memory.dtype)).any() for part in (memory[:GUARD], memory[-GUARD:])):
            return "writes outside of its output"
    return compare_outputs(outputs, expected)


def tensor_arguments(tensor: torch.Tensor) -> list[object]:
    """A tensor's address and its shape."""
    return [ctypes.c_void_p(tensor.data_ptr()), (ctypes.c_int64 * tensor.dim())(*tensor.shape)]
