"""Turns `backends/<name>/knowledge/*.md` into the memory a run starts with (M0)."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean, plugin_folder
from evokernel.core.records import MemoryItem, MemoryKind

NEEDED = {"kind", "title", "source"}
KNOWN = sorted(NEEDED | {"bottleneck", "apis", "family", "bundle"})


def seeds(backend: str) -> list[MemoryItem]:
    """The backend's knowledge cards, in the order of their names; none when it ships none."""
    return [card(path, backend) for path in sorted((plugin_folder("backend", backend) / "knowledge").glob("*.md"))]


def card(path: Path, backend: str) -> MemoryItem:
    """One card: front matter of flat `key: value` lines between `---` lines, then Markdown."""
    try:
        head, body = split(path.read_text(encoding="utf-8"))
        meta = read(head)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from error
    return MemoryItem(
        id=f"{backend}/{path.stem}",
        kind=cast(MemoryKind, meta["kind"]),
        backend=backend,
        title=meta["title"],
        text=body,
        family=meta.get("family", ""),
        bottleneck=meta.get("bottleneck", ""),
        source=meta["source"],
        apis=tuple(name.strip() for name in meta.get("apis", "").split(",") if name.strip()),
        always_include=meta.get("bundle") == "true",
    )


def split(text: str) -> tuple[list[str], str]:
    """Front matter and body."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in (line.strip() for line in lines[1:]):
        raise ValueError("a card begins with front matter between two lines '---'")
    end = next(i for i, line in enumerate(lines) if i and line.strip() == "---")
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        raise ValueError("the card says nothing below its front matter")
    return lines[1:end], body


def read(head: list[str]) -> dict[str, str]:
    """Checked front matter."""
    meta: dict[str, str] = {}
    for line in filter(str.strip, head):
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not colon or not value:
            raise ValueError(f"front matter line '{line}' is not 'key: value'")
        if key not in KNOWN:
            raise ValueError(f"unknown front matter '{key}'{did_you_mean(key, KNOWN)}; known are: {', '.join(KNOWN)}")
        if key in meta:
            raise ValueError(f"front matter '{key}' is given twice")
        meta[key] = value
    if missing := sorted(NEEDED - meta.keys()):
        raise ValueError(f"front matter lacks {', '.join(missing)}")
    if meta["kind"] not in get_args(MemoryKind):
        raise ValueError(f"kind '{meta['kind']}' must be one of {', '.join(get_args(MemoryKind))}")
    if meta.get("bundle", "false") not in ("true", "false"):
        raise ValueError(f"bundle '{meta['bundle']}' must be true or false")
    return meta
