"""The page Glossary."""

from __future__ import annotations

from evokernel.core.glossary import load_glossary
from evokernel.web.render import Links, Page, Query, render_part
from evokernel.web.run_index import RunIndex


def glossary_page(run_index: RunIndex, query: Query, links: Links) -> Page:
    """All terms with their meanings; the same for every run."""
    parts = {"glossary": render_part("glossary.html.j2", links, terms=load_glossary())}
    return Page("Glossary", "glossary", {}, parts, layout="plain.html.j2", is_live=False)


def glossary_version(run_index: RunIndex, query: Query) -> object:
    """A constant: the glossary does not change while the server runs."""
    return None
