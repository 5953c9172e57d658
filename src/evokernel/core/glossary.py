"""Loads the glossary: the terms of the project with one sentence each."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

GLOSSARY_FILE = Path(__file__).with_name("glossary.toml")


class Term(NamedTuple):
    """A term and its meaning in one sentence."""

    word: str
    meaning: str


@cache
def load_glossary() -> tuple[Term, ...]:
    """Return all terms in the order of the file."""
    table = tomllib.loads(GLOSSARY_FILE.read_text(encoding="utf-8"))
    return tuple(Term(term["word"], term["meaning"]) for term in table["term"])


def explain_term(word: str) -> str:
    """Return the meaning of a term of the glossary. Raises KeyError if there is none."""
    return {term.word: term.meaning for term in load_glossary()}[word]
