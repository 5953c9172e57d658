"""Backends the sweep can write for: a folder each, with one file of decisions and one template per family of kernels, and hints.toml."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from evokernel.core.errors import UserError
from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.hints import Hints, hints_in
from evokernel.generators.template_search.sketch import Described, Facts, Sketch
from evokernel.generators.template_search.stage_planner import Plan, Stage

HERE = Path(__file__).parent


class Written(NamedTuple):
    """One stage as text."""

    name: str
    """Of its function or namespace."""
    text: str
    stage: Stage
    described: Described


class Answers:
    """Decisions as a template asks for them, `d.tail`; a question that did not arise is answered with nothing."""

    def __init__(self, taken: Choice) -> None:
        self.taken = dict(taken)

    def __getattr__(self, name: str) -> str:
        """The option taken."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.taken.get(name, "")

    def __getitem__(self, name: str) -> str:
        """The option taken."""
        return self.taken.get(name, "")


@dataclass(frozen=True)
class Dialect:
    """One backend's way of writing kernels."""

    folder: Path
    file: str
    """Name of the kernel's file; its ending is also the templates'."""
    fence: str
    """How a code block of it is marked."""
    frame: Callable[[Signature, Plan, list[Written], Choice], Facts]
    """What the template of the whole kernel, `kernel.*.j2`, is rendered with."""
    prepare: Callable[[Stage, Described, Choice], Facts] = lambda stage, described, d: {}
    """Further names every stage's template uses."""
    shared: tuple[Decision, ...] = ()
    """Decisions about the kernel as a whole."""
    spaced: bool = False
    """Whether blank lines of the templates are kept, several in a row as one."""

    @property
    def hints(self) -> Hints:
        return hints_in(self.folder)

    @cached_property
    def sketches(self) -> Mapping[str, Sketch]:
        """By family: every module of the folder that has a template beside it."""
        suffix = Path(self.file).suffix
        names = sorted(p.stem for p in self.folder.glob("*.py") if (self.folder / f"{p.stem}{suffix}.j2").exists())
        return {name: importlib.import_module(f"{__name__}.{self.folder.name}.{name}").sketch for name in names}

    def describe(self, form: Form) -> Described:
        """A form as its sketch sees it, looked at once; raises NoSketch where there is no sketch for it."""
        return described(self, This(form))

    def look(self, form: Form) -> Described:
        """What the form's sketch says about it."""
        if form.family not in self.sketches:
            raise NoSketch(f"a {form.family} kernel")
        return self.sketches[form.family].describe(form)

    def render(self, signature: Signature, plan: Plan, line: str, shared: Choice, stages: list[Choice]) -> str:
        """The kernel's text: its stages, and what calls them in turn."""
        written = [self.stage(i, stage, taken) for i, (stage, taken) in enumerate(zip(plan.stages, stages))]
        facts = self.frame(signature, plan, written, shared)
        text = self.template("kernel").render(**facts, stages=written, d=shared, line=line)
        lines = [one.rstrip() for one in text.splitlines()]
        kept = [one for before, one in zip(["", *lines], lines) if one or (before and self.spaced)]
        return "\n".join(kept).rstrip() + "\n"

    def stage(self, i: int, stage: Stage, taken: Choice) -> Written:
        """One stage's text."""
        described = self.describe(stage.form)
        d = Answers(taken)
        name = f"{stage.form.family}{i}"
        facts = {**described.facts, **self.prepare(stage, described, taken)}
        return Written(name, self.template(stage.form.family).render(**facts, name=name, d=d), stage, described)

    def template(self, name: str) -> Template:
        """A template of the folder."""
        return environment(self.folder).get_template(f"{name}{Path(self.file).suffix}.j2")


@dataclass(frozen=True, eq=False)
class This:
    """A form itself, not one that equals it: equal forms of two tasks may get their sizes from arguments of other names."""

    form: Form

    def __hash__(self) -> int:
        return id(self.form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, This) and other.form is self.form


@lru_cache(maxsize=4096)
def described(dialect: Dialect, this: This) -> Described:
    """What a dialect makes of a form."""
    return dialect.look(this.form)


@cache
def environment(folder: Path) -> Environment:
    """The templates of a dialect, compiled on first use."""
    return Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )  # fmt: skip


def dialects() -> list[str]:
    """The backends the sweep can write for."""
    return sorted(p.parent.name for p in HERE.glob("*/hints.toml"))


def dialect_of(backend: str) -> Dialect:
    """The dialect of a backend."""
    known = dialects()
    if backend not in known:
        raise UserError(f"sweep has no sketches for backend '{backend}': use backend {' or '.join(known)}, or another generator")
    found = importlib.import_module(f"{__name__}.{backend}").dialect
    if not isinstance(found, Dialect):
        raise TypeError(f"{__name__}.{backend} has no dialect")
    return found
