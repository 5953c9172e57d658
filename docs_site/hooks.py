"""Hooks of MkDocs: pages from outside docs/, generated reference pages, and links that work in the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from command_reference import command_page
from links import rewrite_links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from python_reference import module_pages
from settings_reference import settings_page

ROOT = Path(__file__).parents[1]
PROJECT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "results/README.md": "project/results.md",
}
"""Pages of the repository outside docs/, by their path, with their path in the site."""
DECISIONS = "adr/index.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the parts of the navigation that follow from the source: reference pages and decisions."""
    sections = {name: entries for part in config.nav or [] for name, entries in part.items()}
    fill_section(sections["Reference"], "Python", [{title: path} for path, (title, _) in module_pages().items()])
    fill_section(sections["Explanation"], "Decisions", [DECISIONS, *(f"adr/{page.name}" for page in decision_files())])
    return config


def fill_section(section: list[Any], name: str, entries: list[Any]) -> None:
    """Set the entries of a section's part that mkdocs.yml leaves empty."""
    (part,) = [one for one in section if isinstance(one, dict) and name in one]
    part[name] = entries


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and the images that they show."""
    pages = {path: text for path, (_, text) in module_pages().items()}
    pages |= {"reference/commands.md": command_page(), "reference/settings.md": settings_page(), DECISIONS: decisions_page()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for source, path in PROJECT_PAGES.items():
        text = (ROOT / source).read_text()
        head = "---\nhide: [navigation]\n---\n" if path == "index.md" else ""
        files.append(File.generated(config, path, content=head + text))
        for image in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text):
            file = (ROOT / source).parent / image
            if not file.is_relative_to(ROOT / "docs"):
                files.append(File.generated(config, str(file.relative_to(ROOT)), abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site; a link to a file that the site does not have becomes its text."""
    sources = {path: source for source, path in PROJECT_PAGES.items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    pages = PROJECT_PAGES | {f"docs/{file.src_uri}": file.src_uri for file in files} | {"docs/adr": DECISIONS}
    images = {file.src_uri: file.src_uri for file in files if not file.is_documentation_page()}
    return rewrite_links(markdown, source, page.file.src_uri, images | pages, ROOT)


def decision_files() -> list[Path]:
    """The architecture decision records, in their order."""
    return sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def decisions_page() -> str:
    """The list of all decisions."""
    titles = [(page.name, page.read_text().partition("\n")[0].removeprefix("# ")) for page in decision_files()]
    rows = [f"| {title.partition('. ')[0]} | [{title.partition('. ')[2]}]({name}) |" for name, title in titles]
    head = "Each record has the context of a decision, the choice, and what we gave up.\n\n| | decision |\n|---|---|"
    return "\n".join(["# Decisions", "", head, *rows, ""])
