"""Kernels that are the same but for names, numbers, comments and a line here and there, in C++ and its kin and in Python."""

from __future__ import annotations

import ast
import keyword
import re
from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from math import ceil
from typing import NamedTuple

from evokernel.experiments.pack_contamination import Runs, runs

RUN = 6
"""Tokens in a row that are looked at together."""
ALIKE = 0.9
"""Two kernels are the same when so many of these runs are in both; and a text holds one when it holds so many of the kernel's."""
FEWEST = 12
"""Runs of a kernel that is looked for: a shorter one is in many."""
STRING = re.compile(r'("""|\'\'\').*?\1|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
COMMENTS = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
PYTHON_COMMENTS = re.compile(r"#[^\n]*")
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|::|->|[^\s\w]")
C_WORDS = "auto bool break case char const constexpr continue do double else extern false float for if inline int long return short static"
MORE_WORDS = "struct switch template true typename unsigned void while int32_t int64_t size_t"
WORDS = frozenset([*C_WORDS.split(), *MORE_WORDS.split(), *keyword.kwlist])
BEFORE_CALLS = {"return", "else", "case", "in", "and", "or", "not", "yield", "await", "is", "if", "while"}


class Alike(NamedTuple):
    """A kernel that was found again."""

    operator: str
    item: str
    likeness: float
    """Share of the runs of tokens that both have."""


class Kernels:
    """Known kernels, each of an operator."""

    def __init__(self, known: Iterable[tuple[str, str, str]]) -> None:
        """Operator, item and code of each."""
        listed: dict[Runs, tuple[str, str]] = {}
        for operator, item, code in known:
            if len(found := kernel_runs(code)) >= FEWEST:
                listed.setdefault(found, (operator, item))
        self._known = list(listed.items())
        self._often = Counter(run for found in listed for run in found)
        self._by_run: dict[tuple[str, ...], list[int]] = {}
        for number, (found, _) in enumerate(self._known):
            for run in self._rarest(found):
                self._by_run.setdefault(run, []).append(number)

    def written_as(self, code: str) -> Alike | None:
        """The known kernel that a kernel is."""
        mine = kernel_runs(code)
        return self._best(mine, self._rarest(mine), of_both=True) if mine else None

    def quoted_in(self, text: str) -> Alike | None:
        """The known kernel that stands in a text, whatever stands around it."""
        mine = kernel_runs(text)
        return self._best(mine, mine, of_both=False)

    def _best(self, mine: Runs, looked_up: Iterable[tuple[str, ...]], of_both: bool) -> Alike | None:
        best: Alike | None = None
        for number in sorted({number for run in looked_up for number in self._by_run.get(run, ())}):
            theirs, (operator, item) = self._known[number]
            if of_both and not ALIKE * len(mine) <= len(theirs) <= len(mine) / ALIKE:
                continue
            both = len(mine & theirs)
            likeness = both / (len(mine) + len(theirs) - both if of_both else len(theirs))
            if likeness >= ALIKE and (best is None or likeness > best.likeness):
                best = Alike(operator, item, likeness)
        return best

    def _rarest(self, found: Runs) -> list[tuple[str, ...]]:
        """So many of a kernel's runs that whatever has `ALIKE` of all has one of these."""
        return nsmallest(len(found) - ceil(ALIKE * len(found)) + 1, found, key=lambda run: (self._often[run], run))


def kernel_runs(code: str) -> Runs:
    """What a kernel does, without names of its own, numbers, comments, texts and layout."""
    found = TOKEN.findall(bare(code))
    # A name before a bracket, with a type or `def` before it, is a function of the writer's own; any other function is someone else's.
    own = {
        name
        for before, name, after in zip(found, found[1:], found[2:], strict=False)
        if after == "(" and is_name(name) and (before in "*&>" or (is_name(before) and before not in BEFORE_CALLS))
    }
    tokens = []
    for before, token, after in zip(["", *found], found, [*found[1:], ""], strict=False):
        if is_name(token):
            is_theirs = token in WORDS or before in (".", "::", "->") or (after == "(" and token not in own)
            tokens.append(token if is_theirs else "name")
        else:
            tokens.append("0" if token[0].isdigit() else token)
    return runs(tokens, RUN)


def bare(code: str) -> str:
    """Without comments and texts: `//` divides in Python, and `#` begins no comment in C++."""
    try:
        ast.parse(code)
        comments = PYTHON_COMMENTS
    except (SyntaxError, ValueError):
        comments = COMMENTS
    return comments.sub(" ", STRING.sub(" ", code))


def is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"
