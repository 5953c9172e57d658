"""Compares source code as text: comments, and n-grams of tokens. Works for kernels in any language, also ones that do not compile."""

from __future__ import annotations

import re
from collections.abc import Iterable

C_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
"""A comment of C and related languages; without its end, it reaches to the end of the text, as for a compiler."""
HASH_COMMENT = r"#[^\n]*"
"""A comment of Python."""
DIRECTIVES = "include|define|pragma|if|el|end|undef"
ANY_COMMENT = re.compile(rf"//[^\n]*|/\*.*?\*/|(?m:^\s*#(?!\s*(?:{DIRECTIVES}))[^\n]*)", re.DOTALL)
"""A comment in code of unknown language. A preprocessor directive is none, nor is `/*` without an end, which may stand in a string."""
TOKEN = re.compile(r"\w+|[^\w\s]")
NGRAM_TOKENS = 5
"""Tokens per n-gram of code. Comparing sets of n-grams makes a moved line count as unchanged."""

Ngrams = frozenset[tuple[str, ...]]


def strip_comments(code: str) -> str:
    """Return code of unknown language with a space for each comment."""
    return ANY_COMMENT.sub(" ", code)


def token_ngrams(tokens: Iterable[str], length: int) -> Ngrams:
    """Return all sequences of `length` consecutive tokens."""
    token_list = list(tokens)
    return frozenset(zip(*(token_list[start:] for start in range(length)), strict=False))


def code_ngrams(code: str) -> Ngrams:
    """Return the n-grams of code without comments; of code that is shorter than one n-gram, all tokens."""
    tokens = TOKEN.findall(strip_comments(code))
    return token_ngrams(tokens, NGRAM_TOKENS) or frozenset([tuple(tokens)])


def novelty_ratio(code: str, earlier: str) -> float:
    """Return the share of n-grams in code that do not occur in earlier code."""
    own = code_ngrams(code)
    return len(own - code_ngrams(earlier)) / len(own)


def jaccard_similarity(first: Ngrams, second: Ngrams) -> float:
    """Return the size of the intersection divided by the size of the union; 1 for two empty sets."""
    small, large = sorted((len(first), len(second)))
    common = len(first & second) if small else 0
    return common / (small + large - common) if large else 1.0
