"""Loads the candidate's launch function with whichever copy of Triton this process uses."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch

from evokernel.backends.gpu.module_file import import_candidate
from evokernel.backends.triton.screen import find_violations, is_model
from evokernel.core.errors import CandidateError

FILE, ENTRY = "kernel.py", "kernel"
DTYPES = {
    name: getattr(torch, name) for name in ["float64", "int64", "float32", "int32", "float16", "bfloat16", "int16", "int8", "uint8", "bool"]
}


def load_launch_function(path: Path) -> Any:
    """Loads the candidate's module and returns its launch function."""
    if not path.exists() or not (text := path.read_text()).strip():
        raise CandidateError("no_code", f"the candidate has no code; write exactly one file called {FILE}")
    if violations := list(find_violations({FILE: text})):
        raise CandidateError("forbidden", "\n".join(violations[:5]))
    if is_model(text):
        from evokernel.backends.triton.model import load_model_entry

        return load_model_entry(path, import_candidate)
    entry = getattr(import_candidate(path), ENTRY, None)
    if not callable(entry) or isinstance(entry, importlib.import_module("triton.runtime.jit").KernelInterface):
        raise CandidateError("symbol", f"there is no function `{ENTRY}` that launches the kernels; define it as def {ENTRY}(...)")
    return entry
