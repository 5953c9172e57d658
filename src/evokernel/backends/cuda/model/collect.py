"""Runs a model's file in the sandbox up to its extensions, and records them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from evokernel.backends.cuda.model import COLLECTED, FILE, ORDER
from evokernel.backends.gpu.model_environment import fake_cuda_environment, load_model_class
from evokernel.core.errors import CandidateError


class PlaceholderExtension:
    """Placeholder for an extension that is not built yet."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def fail(*_: object, **__: object) -> None:
            raise CandidateError("trace_error", f"{name} is called before the model is")

        return fail


class ExtensionCollector:
    """Records the arguments of `load_inline`."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def load_inline(
        self, name: str, cpp_sources: Any = "", cuda_sources: Any = "", functions: Any = None, *_: object, **more: Any
    ) -> PlaceholderExtension:
        named = {one: one for one in [functions] if isinstance(one, str)} or functions
        self.found.append(
            {
                "name": str(name),
                "cpp": join_sources(cpp_sources),
                "cuda": join_sources(cuda_sources),
                "functions": None if named is None else [str(one) for one in named],
                "flags": [str(flag) for flag in more.get("extra_cuda_cflags") or ()],
            }
        )
        return PlaceholderExtension()


def join_sources(sources: Any) -> str:
    return "\n".join([sources] if isinstance(sources, str) else [str(source) for source in sources or ()])


def collect_from_file(workdir: Path) -> list[dict[str, Any]]:
    """Collects all extensions of a file; if loading it creates none, its class is instantiated once as well."""
    order = json.loads((workdir / ORDER).read_text())
    collector = ExtensionCollector()
    with fake_cuda_environment(collector.load_inline, order["facts"]), torch.no_grad():
        made = load_model_class(workdir / FILE)
        if not collector.found:
            from evokernel.reference.module import Reference

            made(*Reference(order["source"], order["name"], order["sizes"]).init_arguments())
    return collector.found


def main() -> None:
    """Writes the collected extensions to a file; exceptions go to stderr."""
    workdir = Path(sys.argv[2])
    found: Mapping[str, Any]
    try:
        found = {"extensions": collect_from_file(workdir)}
    except CandidateError as error:
        found = {"refused": [error.reason, error.detail]}
    (workdir / COLLECTED).write_text(json.dumps(found))
