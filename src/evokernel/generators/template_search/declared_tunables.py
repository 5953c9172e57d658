"""Declares numeric decisions of a kernel as tunables, so that the tuner chooses them within an attempt instead of further attempts.

A decision qualifies if its option occurs in the kernel as a number and nothing else depends on it. This is found by rendering: with a name
in place of the number, the text must equal the kernel of every other option once that name is replaced by the option.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from jinja2 import TemplateError

from evokernel.generators.template_search.decisions import Choice, Decision, NamedOption
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.search_space import KERNEL, KernelDecisions, SearchSpace

MAX_TUNABLES = 8
PART = re.compile(r"^// file: ", re.MULTILINE)
CONSTANT_TERM = re.compile(r"\((\d+) ([-+*]|/(?= [1-9])) (\d+)\)")
HEADER = {".py": ("import ", "from "), "": ("#include ", "// file: ", "// decisions: ")}
"""How the last line before the constants begins."""
NOT_RENDERED = (ValueError, KeyError, TypeError, AttributeError, TemplateError, UnsupportedPattern)


class Slot(NamedTuple):
    """The place of a decision: 0 is the complete kernel, stage i has number i + 1."""

    group: int
    name: str


class DeclaredTunable(NamedTuple):
    """A decision that became a constant."""

    symbol: str
    default: str
    options: tuple[str, ...]


class TunableKernel(NamedTuple):
    """A kernel with its tunables."""

    code: str
    decisions: KernelDecisions
    """The decisions, with the names of constants in place of numbers."""
    tunables: dict[Slot, DeclaredTunable]

    @property
    def notes(self) -> str:
        """The decisions and the values of the constants."""
        values = ", ".join(f"{tunable.symbol} = {tunable.default}" for tunable in self.tunables.values())
        return f"{self.decisions.line}\nTunables: {values}" if values else self.decisions.line


def declare_tunables(space: SearchSpace, decisions: KernelDecisions) -> TunableKernel:
    """The kernel in which every decision that qualifies is a tunable."""
    groups = [space.kernel_decisions(), *space.stage_decisions(decisions.kernel)]
    plain = render_options(space, decisions, {})
    symbols: dict[Slot, str] = {}
    tunables: dict[Slot, DeclaredTunable] = {}
    for number, group in enumerate(groups):
        choice = get_choice(decisions, number)
        for decision in group.decisions:
            slot = Slot(number, decision.name)
            option = choice.get(decision.name, "")
            if slot in symbols or not option.isdigit() or option not in decision.options or len(tunables) == MAX_TUNABLES:
                continue
            name = f"{KERNEL if number == 0 else f'{group.family}{number - 1}'}_{decision.name}".upper()
            symbol = NamedOption(name, int(option))
            options = [o for o in decision.options if o.isdigit() and is_same_choice(group.decisions, choice, decision.name, o)]
            working = find_options(space, decisions, symbols | {slot: symbol}, slot, options)
            if symbol not in plain and option in working and len(working) > 1:
                symbols[slot] = symbol
                tunables[slot] = DeclaredTunable(symbol, option, working)
    named = replace_options(decisions, symbols)
    text = insert_constants(space.render_kernel(named), list(tunables.values()), space.dialect.file)
    return TunableKernel(text, named, tunables)


def find_options(
    space: SearchSpace, decisions: KernelDecisions, symbols: Mapping[Slot, str], slot: Slot, options: list[str]
) -> tuple[str, ...]:
    """The options of a decision whose kernels differ only in the number that a symbol stands for; other symbols have their values."""
    try:
        text = render_options(space, decisions, symbols)
    except NOT_RENDERED:
        return ()
    if not re.search(rf"\b{symbols[slot]}\b", text):
        return ()
    for other, symbol in symbols.items():
        if other != slot:
            text = re.sub(rf"\b{symbol}\b", get_choice(decisions, other.group)[other.name], text)
    working = []
    for option in options:
        try:
            expected = render_options(space, decisions, {slot: option})
        except NOT_RENDERED:
            continue
        if fold_numbers(re.sub(rf"\b{symbols[slot]}\b", option, text), space.dialect.file) == fold_numbers(expected, space.dialect.file):
            working.append(option)
    return tuple(working)


def fold_numbers(text: str, file: str) -> str:
    """The text with arithmetic on two numbers in parentheses replaced by its value; `/` divides integers in C only."""
    compute = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv if file.endswith(".py") else operator.floordiv,
    }
    while (folded := CONSTANT_TERM.sub(lambda term: str(compute[term[2]](int(term[1]), int(term[3]))), text)) != text:
        text = folded
    return text


def is_same_choice(group: tuple[Decision, ...], choice: Choice, name: str, option: str) -> bool:
    """Whether the same decisions apply with another option."""
    changed = {**choice, name: option}
    return all(decision.when(choice) == decision.when(changed) for decision in group if decision.name != name)


def get_choice(decisions: KernelDecisions, group: int) -> Choice:
    """The options of the complete kernel, or of a stage."""
    return decisions.kernel if group == 0 else decisions.stages[group - 1][1]


def replace_options(decisions: KernelDecisions, options: Mapping[Slot, str]) -> KernelDecisions:
    """The decisions with other options in some places."""
    by_group = [{slot.name: text for slot, text in options.items() if slot.group == number} for number in range(len(decisions.stages) + 1)]
    stages = tuple((family, {**choice, **by_group[i + 1]}) for i, (family, choice) in enumerate(decisions.stages))
    return replace(decisions, kernel={**decisions.kernel, **by_group[0]}, stages=stages)


def render_options(space: SearchSpace, decisions: KernelDecisions, options: Mapping[Slot, str]) -> str:
    """The source of a kernel with other options, without the line that records its decisions."""
    text = space.render_kernel(replace_options(decisions, options))
    return "\n".join(line for line in text.splitlines() if " decisions: " not in line)


def insert_constants(text: str, tunables: list[DeclaredTunable], file: str) -> str:
    """The text with the constants, in every part of the file that uses them."""
    is_python = file.endswith(".py")
    starts = [0, *(match.start() for match in PART.finditer(text)), len(text)]
    parts = [text[start:stop] for start, stop in pairwise(starts) if start < stop]
    return "".join(insert_into_part(part, tunables, is_python) for part in parts)


def insert_into_part(text: str, tunables: list[DeclaredTunable], is_python: bool) -> str:
    """The text of one part with the constants that it uses, after its header."""
    lines = text.splitlines(keepends=True)
    code = "".join(line for line in lines if " decisions: " not in line)
    constants = [format_constant(t, is_python) for t in tunables if re.search(rf"\b{t.symbol}\b", code)]
    if not constants:
        return text
    prefixes = HEADER[".py" if is_python else ""]
    at = max((number + 1 for number, line in enumerate(lines) if line.startswith(prefixes)), default=0)
    return "".join([*lines[:at], *(f"{line}\n" for line in constants), *lines[at:]])


def format_constant(tunable: DeclaredTunable, is_python: bool) -> str:
    """The definition of a constant with its declaration."""
    values = f"tune: {tunable.symbol} = {' | '.join(tunable.options)}"
    definition = f"{tunable.symbol} = {tunable.default}"
    return f"{definition}  # {values}" if is_python else f"constexpr int {definition};  // {values}"
