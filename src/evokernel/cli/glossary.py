"""`evokernel glossary`: explains the terms of the project."""

from __future__ import annotations

import click

from evokernel.cli.output import format_pairs, json_option, print_json, print_text
from evokernel.core.errors import UserError


@click.command()
@click.argument("word", default="")
@json_option
def command(word: str, as_json: bool) -> None:
    """Explain a term, or all terms without WORD.

    \b
    Examples:
      evokernel glossary
      evokernel glossary gate
    """
    from evokernel.core.glossary import load_glossary
    from evokernel.core.plugins import did_you_mean

    terms = [term for term in load_glossary() if word.lower() in ("", term.word.lower())]
    if not terms:
        names = [term.word for term in load_glossary()]
        raise UserError(f"the glossary has no term '{word}'{did_you_mean(word, names)}. 'evokernel glossary' lists all terms.")
    if as_json:
        print_json([term._asdict() for term in terms])
    else:
        print_text(format_pairs(terms))
