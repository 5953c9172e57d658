"""The backends that template_search can write for: one folder each, with a module of decisions and a Jinja file per kernel family,
and hints.toml.
"""

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
from evokernel.generators.template_search.decisions import Choice, Decision, to_int
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.hints import Hints, load_hints
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, TemplateVariables
from evokernel.generators.template_search.patterns import KernelPattern
from evokernel.generators.template_search.stage_planner import Plan, Stage

HERE = Path(__file__).parent


class RenderedStage(NamedTuple):
    """The source code of one stage."""

    name: str
    """Name of its function or namespace."""
    text: str
    stage: Stage
    description: PatternDescription
    choice: Choice


class TemplateChoice:
    """The choice of a stage as Jinja files read it, `d.tail`; empty for a decision that does not apply."""

    def __init__(self, choice: Choice) -> None:
        self.choice = dict(choice)

    def with_options(self, **options: str) -> TemplateChoice:
        """The same choice with other options for some decisions."""
        return TemplateChoice({**self.choice, **options})

    def __getattr__(self, name: str) -> str:
        """The option of a decision."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.choice.get(name, "")

    def __getitem__(self, name: str) -> str:
        """The option of a decision."""
        return self.choice.get(name, "")


@dataclass(frozen=True)
class Dialect:
    """The templates of one backend, and how a kernel is put together from rendered stages."""

    folder: Path
    file: str
    """Name of the kernel's file; the Jinja files have the same suffix, followed by `.j2`."""
    fence: str
    """Language tag of a Markdown code block."""
    build_kernel_variables: Callable[[Signature, Plan, list[RenderedStage], Choice], TemplateVariables]
    """The variables of `kernel.*.j2`, the template of the complete kernel."""
    build_stage_variables: Callable[[Stage, PatternDescription, Choice], TemplateVariables] = lambda stage, description, choice: {}
    """Further variables of every stage's template."""
    kernel_decisions: tuple[Decision, ...] = ()
    """Decisions about the complete kernel."""
    fit_option: Callable[[Stage, Decision, Choice], str] = lambda stage, decision, choice: ""
    """The option of a decision that suits a stage's sizes, given earlier choices; empty if the prior's option for any size is as good."""
    prefers_fused: Callable[[KernelPattern], bool] = lambda pattern: False
    """Whether the template `fused` suits a pattern better than the pattern's own template."""
    families_with_slices: frozenset[str] = frozenset()
    """Kernel families whose loops can read slices of tensors in place."""
    keeps_blank_lines: bool = False
    """Whether blank lines of the templates are kept, several in a row as one."""

    @property
    def hints(self) -> Hints:
        """The dialect's hints."""
        return load_hints(self.folder)

    @cached_property
    def templates(self) -> Mapping[str, KernelTemplate]:
        """Templates by kernel family: every module of the folder that has a Jinja file of the same name."""
        suffix = Path(self.file).suffix
        names = sorted(p.stem for p in self.folder.glob("*.py") if (self.folder / f"{p.stem}{suffix}.j2").exists())
        return {name: importlib.import_module(f"{__name__}.{self.folder.name}.{name}").template for name in names}

    def describe(self, pattern: KernelPattern) -> PatternDescription:
        """A pattern in the terms of its template, cached; raises UnsupportedPattern if there is no template for it."""
        return cached_description(self, PatternIdentity(pattern))

    def describe_uncached(self, pattern: KernelPattern) -> PatternDescription:
        """A pattern in the terms of its template; raises UnsupportedPattern if there is no template for it."""
        if pattern.family not in self.templates:
            raise UnsupportedPattern(f"{'an' if pattern.family[0] in 'aeiou' else 'a'} {pattern.family} kernel")
        if pattern.family not in self.families_with_slices and any(operand.node.op == "slice" for operand in pattern.operands):
            raise UnsupportedPattern("a slice inside other steps")
        return self.templates[pattern.family].describe(pattern)

    def render_kernel(
        self, signature: Signature, plan: Plan, decision_line: str, kernel_choice: Choice, stage_choices: list[Choice]
    ) -> str:
        """The source code of a kernel: its stages, and the entry point that calls them in order."""
        stages = [self.render_stage(i, stage, choice) for i, (stage, choice) in enumerate(zip(plan.stages, stage_choices))]
        variables = self.build_kernel_variables(signature, plan, stages, kernel_choice)
        text = self.load_template("kernel").render(**variables, stages=stages, d=kernel_choice, line=decision_line)
        lines = [line.rstrip() for line in text.splitlines()]
        non_blank = [line for before, line in zip(["", *lines], lines) if line or (before and self.keeps_blank_lines)]
        return "\n".join(non_blank).rstrip() + "\n"

    def render_stage(self, i: int, stage: Stage, choice: Choice) -> RenderedStage:
        """The source code of stage i."""
        description = self.describe(stage.pattern)
        name = f"{stage.pattern.family}{i}"
        variables = {**description.variables, **self.build_stage_variables(stage, description, choice)}
        text = self.load_template(stage.pattern.family).render(**variables, name=name, d=TemplateChoice(choice))
        return RenderedStage(name, text, stage, description, choice)

    def load_template(self, name: str) -> Template:
        """A Jinja template of the folder."""
        return jinja_environment(self.folder).get_template(f"{name}{Path(self.file).suffix}.j2")


@dataclass(frozen=True, eq=False)
class PatternIdentity:
    """A cache key for one pattern object: equal patterns of two tasks may take their sizes from arguments with different names."""

    pattern: KernelPattern

    def __hash__(self) -> int:
        return id(self.pattern)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PatternIdentity) and other.pattern is self.pattern


@lru_cache(maxsize=4096)
def cached_description(dialect: Dialect, identity: PatternIdentity) -> PatternDescription:
    """The description of a pattern in a dialect, computed once."""
    return dialect.describe_uncached(identity.pattern)


@cache
def jinja_environment(folder: Path) -> Environment:
    """The Jinja environment of a dialect's folder; templates are compiled on first use."""
    environment = Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )  # fmt: skip
    environment.filters["int"] = to_int
    return environment


def list_dialects() -> list[str]:
    """The names of the backends that template_search can write for."""
    return sorted(p.parent.name for p in HERE.glob("*/hints.toml"))


def get_dialect(backend: str) -> Dialect:
    """The dialect of a backend."""
    names = list_dialects()
    if backend not in names:
        raise UserError(
            f"generator 'template_search' has no templates for backend '{backend}': use backend {' or '.join(names)}, or another generator"
        )
    dialect = importlib.import_module(f"{__name__}.{backend}").dialect
    if not isinstance(dialect, Dialect):
        raise TypeError(f"{__name__}.{backend} has no dialect")
    return dialect
