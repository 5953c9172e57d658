"""The Python environment of a model while it is recorded: a PyTorch that reports a device, and our `load_inline`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from evokernel.backends.gpu.model_facts import CLASS
from evokernel.backends.gpu.module_file import import_candidate
from evokernel.core.errors import CandidateError

EXTENSIONS = "torch.utils.cpp_extension"
FORBIDDEN = {
    "Stream": ("stream", "a stream of its own: launch on the current one"),
    "stream": ("stream", "a stream of its own: launch on the current one"),
    "Event": ("forbidden", "events are the clock's, not a model's"),
    "CUDAGraph": ("forbidden", "a captured graph keeps the launches before: launch the kernels in every call"),
    "graph": ("forbidden", "a captured graph keeps the launches before: launch the kernels in every call"),
    "make_graphed_callables": ("forbidden", "a captured graph keeps the launches before: launch the kernels in every call"),
}
"""Names in `torch.cuda` that a model may not use, with the reason."""
Load = Callable[..., Any]


@contextmanager
def fake_cuda_environment(load_inline: Load, facts: Mapping[str, int]) -> Iterator[None]:
    """Context in which a model sees a device and its `load_inline` calls are intercepted."""
    before = sys.modules.get(EXTENSIONS)
    sys.modules[EXTENSIONS] = torch.utils.cpp_extension = fake_cpp_extension(load_inline)
    changed = fake_torch_cuda(facts)
    kept = {name: getattr(torch.cuda, name) for name in changed if hasattr(torch.cuda, name)}
    for name, value in changed.items():
        setattr(torch.cuda, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(torch.cuda, name, value)
        if before is not None:
            sys.modules[EXTENSIONS] = torch.utils.cpp_extension = before


def fake_cpp_extension(load_inline: Load) -> types.ModuleType:
    """Replaces PyTorch's own module, which searches for compilers when it is imported."""
    made: Any = types.ModuleType(EXTENSIONS)
    made.load_inline, made.CUDA_HOME = load_inline, "/usr/local/cuda"

    def load(*_: object, **__: object) -> None:
        raise CandidateError("unsupported", "cpp_extension.load reads other files; put the sources into this file and use load_inline")

    made.load = load
    return made  # type: ignore[no-any-return]


def fake_torch_cuda(facts: Mapping[str, int]) -> dict[str, Any]:
    """Returns the replaced attributes of `torch.cuda`."""
    properties = types.SimpleNamespace(
        name="GPU",
        multi_processor_count=facts["multiprocessors"],
        major=facts["major"],
        minor=facts["minor"],
        warp_size=facts["warp"],
        L2_cache_size=facts["l2_bytes"],
        max_threads_per_multi_processor=facts["threads_per_multiprocessor"],
        shared_memory_per_block_optin=facts["shared_per_block"],
        shared_memory_per_multiprocessor=facts["shared_per_multiprocessor"],
        regs_per_multiprocessor=facts["registers_per_multiprocessor"],
    )
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None, device_index=0)
    said = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "synchronize": None,
        "set_device": None,
        "empty_cache": None,
        "_lazy_init": None,
        "is_initialized": True,
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
        "get_device_properties": properties,
        "get_device_capability": (facts["major"], facts["minor"]),
        "get_device_name": "GPU",
        "current_stream": stream,
        "default_stream": stream,
    }
    found: dict[str, Any] = {name: make_constant(value) for name, value in said.items()}
    return found | {name: make_refusal(*why) for name, why in FORBIDDEN.items()}


def make_constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def make_refusal(reason: str, detail: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        raise CandidateError(reason, detail)

    return refuse


def load_model_class(path: Path) -> Any:
    """Loads a model's file and returns its class."""
    found = getattr(import_candidate(path), CLASS, None)
    if not isinstance(found, type) or not issubclass(found, torch.nn.Module):
        raise CandidateError("symbol", f"the file defines no class {CLASS}(nn.Module); define it")
    return found
