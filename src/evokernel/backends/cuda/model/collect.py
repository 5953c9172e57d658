"""Runs a model's file as far as it has extensions compiled, and writes down what they are. In a process of its own, closed in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from evokernel.backends.cuda.model import FILE, FOUND, ORDER
from evokernel.backends.cuda.model.host import loaded, stage
from evokernel.core.errors import CandidateError


class Nothing:
    """Stands for an extension that is not built yet."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def fail(*_: object, **__: object) -> None:
            raise CandidateError("trace_error", f"{name} is called before the model is")

        return fail


class Collector:
    """Takes what `load_inline` is given."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def load_inline(
        self, name: str, cpp_sources: Any = "", cuda_sources: Any = "", functions: Any = None, *_: object, **more: Any
    ) -> Nothing:
        named = {one: one for one in [functions] if isinstance(one, str)} or functions
        self.found.append(
            {
                "name": str(name),
                "cpp": joined(cpp_sources),
                "cuda": joined(cuda_sources),
                "functions": None if named is None else [str(one) for one in named],
                "flags": [str(flag) for flag in more.get("extra_cuda_cflags") or ()],
            }
        )
        return Nothing()


def joined(sources: Any) -> str:
    return "\n".join([sources] if isinstance(sources, str) else [str(source) for source in sources or ()])


def collect(workdir: Path) -> list[dict[str, Any]]:
    """All extensions of a file; of those that have none when they are loaded, the class is made once as well."""
    order = json.loads((workdir / ORDER).read_text())
    collector = Collector()
    with stage(collector.load_inline, order["facts"]), torch.no_grad():
        made = loaded(workdir / FILE)
        if not collector.found:
            from evokernel.reference.module import Reference

            made(*Reference(order["source"], order["name"], order["sizes"]).initial())
    return collector.found


def main() -> None:
    """Leaves a file; what else is raised is told on stderr."""
    workdir = Path(sys.argv[2])
    found: Mapping[str, Any]
    try:
        found = {"extensions": collect(workdir)}
    except CandidateError as error:
        found = {"refused": [error.reason, error.detail]}
    (workdir / FOUND).write_text(json.dumps(found))
