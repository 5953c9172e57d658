"""What one backend adds to the sweep: a folder here with sketches, the decisions they leave open, and how experience bears on those."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.generators.sweep.decisions import Choice, Decision, Facts, Operator, line_of
from evokernel.generators.sweep.hints import Hints, hints_in
from evokernel.generators.sweep.match import Form, recognise


@dataclass(frozen=True)
class Dialect:
    """One backend's way of writing kernels."""

    folder: Path
    """Holds `sketches/` and `hints.toml`."""
    file: str
    """Name of the kernel's file; its ending is also the templates'."""
    fence: str
    """How a code block of it is marked."""
    sketches: Mapping[str, tuple[Decision, ...]]
    describe: Callable[[Form], tuple[Facts, frozenset[str]]]
    """Facts and traits of an operator; raises NoSketch for what the sketches do not cover."""
    words: Callable[[Choice], Facts] = lambda taken: {}
    """Further names the templates use."""
    spaced: bool = False
    """Whether blank lines of the templates are kept, several in a row as one."""

    @property
    def hints(self) -> Hints:
        return hints_in(self.folder)

    def operator(self, task: Task) -> Operator:
        """The operator of a task; raises NoSketch, saying in a few words what is not covered."""
        form = recognise(task)
        facts, traits = self.describe(form)
        return Operator(form.sketch, facts, traits, self.sketches[form.sketch])

    def render(self, operator: Operator, taken: Choice) -> str:
        """The kernel's text for these decisions."""
        names = {decision.name for decisions in self.sketches.values() for decision in decisions}
        d = {name: taken.get(name, "") for name in names}
        template = environment(self.folder).get_template(f"{operator.sketch}{Path(self.file).suffix}.j2")
        text = template.render(**operator.facts, **self.words(d), d=d, line=line_of(operator, taken))
        lines = [line.rstrip() for line in text.splitlines()]
        kept = [line for before, line in zip(["", *lines], lines) if line or (before and self.spaced)]
        return "\n".join(kept).rstrip() + "\n"


@cache
def environment(folder: Path) -> Environment:
    """The templates of a dialect, compiled on first use."""
    return Environment(
        loader=FileSystemLoader(folder / "sketches"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )


def dialects() -> list[str]:
    """The backends the sweep can write for."""
    return sorted(p.parent.name for p in Path(__file__).parent.glob("*/hints.toml"))


def dialect_of(backend: str) -> Dialect:
    """The dialect of a backend."""
    known = dialects()
    if backend not in known:
        raise UserError(f"sweep has no sketches for backend '{backend}': use backend {' or '.join(known)}, or another generator")
    found = importlib.import_module(f"evokernel.generators.sweep.{backend}").dialect
    if not isinstance(found, Dialect):
        raise TypeError(f"evokernel.generators.sweep.{backend} has no dialect")
    return found
