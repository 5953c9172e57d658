"""Links of the repository's pages, rewritten so that they work in the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

CODE_OR_LINK = re.compile(
    r"^(?P<fence>```|~~~).*?^(?P=fence)|`[^`\n]+`|(?P<mark>!?)\[(?P<label>[^\[\]]*)\]\((?P<target>[^)\s]+)\)", re.DOTALL | re.MULTILINE
)


def rewrite_links(text: str, source: str, path: str, pages: Mapping[str, str], root: Path) -> str:
    """Return a page with links to the site's pages; code and broken links stay as they are.

    Args:
        text: The page.
        source: Its path in the repository, to which its links are relative.
        path: Its path in the site.
        pages: The paths in the site by those in the repository. A link to another file of the repository becomes its text.
        root: The repository.
    """

    def rewrite(match: re.Match[str]) -> str:
        file, hash_sign, anchor = (match["target"] or "").partition("#")
        if not file or re.match(r"[a-z]+:", file):
            return match.group()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        place = pages.get(target)
        if place is None:
            return match["label"] if (root / target).exists() else match.group()
        return f"{match['mark']}[{match['label']}]({posixpath.relpath(place, posixpath.dirname(path) or '.')}{hash_sign}{anchor})"

    return CODE_OR_LINK.sub(rewrite, text)
