"""Finds kernels that are equal except for names, numbers, comments and a few lines, in C++-like languages and in Python."""

from __future__ import annotations

import ast
import keyword
import re
from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from math import ceil
from typing import NamedTuple

from evokernel.core.code_text import C_COMMENT, HASH_COMMENT, Ngrams, token_ngrams

NGRAM_LENGTH = 6
"""Tokens per n-gram."""
MIN_SIMILARITY = 0.9
"""Two kernels are clones if they share this part of their n-grams; a text quotes a kernel if it contains this part of the kernel's."""
MIN_NGRAMS = 12
"""Kernels with fewer n-grams are ignored: they occur in many texts."""
STRING = re.compile(r'("""|\'\'\').*?\1|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|::|->|[^\s\w]")
C_KEYWORDS = (
    "auto bool break case char const constexpr continue do double else extern false float for if inline int long return short static"
)
MORE_C_KEYWORDS = "struct switch template true typename unsigned void while int32_t int64_t size_t"
KEYWORDS = frozenset([*C_KEYWORDS.split(), *MORE_C_KEYWORDS.split(), *keyword.kwlist])
BEFORE_CALLS = {"return", "else", "case", "in", "and", "or", "not", "yield", "await", "is", "if", "while"}


class CloneMatch(NamedTuple):
    """An indexed kernel that another kernel or text contains."""

    operator: str
    item: str
    similarity: float
    """Share of common n-grams."""


class KernelIndex:
    """An index of kernels by their n-grams; each kernel belongs to an operator."""

    def __init__(self, kernels: Iterable[tuple[str, str, str]]) -> None:
        """Index kernels, each given as operator, item id and code."""
        owners: dict[Ngrams, tuple[str, str]] = {}
        for operator, item, code in kernels:
            if len(ngrams := kernel_ngrams(code)) >= MIN_NGRAMS:
                owners.setdefault(ngrams, (operator, item))
        self._kernels = list(owners.items())
        self._frequency = Counter(ngram for ngrams in owners for ngram in ngrams)
        self._by_ngram: dict[tuple[str, ...], list[int]] = {}
        for number, (ngrams, _) in enumerate(self._kernels):
            for ngram in self._rarest_ngrams(ngrams):
                self._by_ngram.setdefault(ngram, []).append(number)

    def find_clone(self, code: str) -> CloneMatch | None:
        """Return the indexed kernel that a kernel is a clone of."""
        ngrams = kernel_ngrams(code)
        return self._best_match(ngrams, self._rarest_ngrams(ngrams), is_symmetric=True) if ngrams else None

    def find_quote(self, text: str) -> CloneMatch | None:
        """Return the indexed kernel that a text contains."""
        ngrams = kernel_ngrams(text)
        return self._best_match(ngrams, ngrams, is_symmetric=False)

    def _best_match(self, ngrams: Ngrams, lookup: Iterable[tuple[str, ...]], is_symmetric: bool) -> CloneMatch | None:
        """Return the most similar kernel that has one of the n-grams in `lookup`; symmetric: similarity relative to both."""
        best: CloneMatch | None = None
        for number in sorted({number for ngram in lookup for number in self._by_ngram.get(ngram, ())}):
            kernel, (operator, item) = self._kernels[number]
            if is_symmetric and not MIN_SIMILARITY * len(ngrams) <= len(kernel) <= len(ngrams) / MIN_SIMILARITY:
                continue
            common = len(ngrams & kernel)
            similarity = common / (len(ngrams) + len(kernel) - common if is_symmetric else len(kernel))
            if similarity >= MIN_SIMILARITY and (best is None or similarity > best.similarity):
                best = CloneMatch(operator, item, similarity)
        return best

    def _rarest_ngrams(self, ngrams: Ngrams) -> list[tuple[str, ...]]:
        """Return enough rare n-grams that every text with the share `MIN_SIMILARITY` of all n-grams has one of them."""
        count = len(ngrams) - ceil(MIN_SIMILARITY * len(ngrams)) + 1
        return nsmallest(count, ngrams, key=lambda ngram: (self._frequency[ngram], ngram))


def kernel_ngrams(code: str) -> Ngrams:
    """Return the n-grams of a kernel without its own names, numbers, comments, strings and layout."""
    raw_tokens = TOKEN.findall(strip_comments_and_strings(code))
    # A name before a bracket, with a type or `def` before it, is a function that the kernel defines; any other function is external.
    own_functions = {
        name
        for before, name, after in zip(raw_tokens, raw_tokens[1:], raw_tokens[2:], strict=False)
        if after == "(" and is_name(name) and (before in "*&>" or (is_name(before) and before not in BEFORE_CALLS))
    }
    tokens = []
    for before, token, after in zip(["", *raw_tokens], raw_tokens, [*raw_tokens[1:], ""], strict=False):
        if is_name(token):
            is_external = token in KEYWORDS or before in (".", "::", "->") or (after == "(" and token not in own_functions)
            tokens.append(token if is_external else "name")
        else:
            tokens.append("0" if token[0].isdigit() else token)
    return token_ngrams(tokens, NGRAM_LENGTH)


def strip_comments_and_strings(code: str) -> str:
    """Return code without comments and strings; `//` is a division in Python, and `#` is not a comment in C++."""
    try:
        ast.parse(code)
        comment = HASH_COMMENT
    except (SyntaxError, ValueError):
        comment = C_COMMENT
    return re.sub(comment, " ", STRING.sub(" ", code), flags=re.DOTALL)


def is_name(token: str) -> bool:
    """Whether a token is an identifier."""
    return token[0].isalpha() or token[0] == "_"
