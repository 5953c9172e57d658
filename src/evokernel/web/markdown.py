"""Renders the Markdown of knowledge cards as HTML. Cards come from strangers too: HTML in them stays text, and nothing is loaded."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

FIRST_HEADING = 3
"""The level of a heading `#`: the page has headings of its own above the card."""


@cache
def markdown_parser() -> MarkdownIt:
    """CommonMark with tables; without HTML and images."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "html_block", "html_inline"])
    parser.core.ruler.push("adapt", adapt_tokens)
    return parser


def adapt_tokens(state: Any) -> None:
    """Lower the headings, and send no referrer with links."""
    for token in iterate_tokens(state.tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + FIRST_HEADING - 1)}"
        elif token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer nofollow")


def iterate_tokens(tokens: Sequence[Token]) -> list[Token]:
    """All tokens with those inside them."""
    return [token for outer in tokens for token in (outer, *(outer.children or ()))]


def render_markdown(text: str) -> Markup:
    """Markdown as HTML."""
    environment: MutableMapping[str, Any] = {}
    return Markup(markdown_parser().render(text, environment))
