"""Load the knowledge cards `backends/<name>/knowledge/*.md` as the memory that a run starts with (M0)."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

from evokernel.core.causes import CAUSES
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean, plugin_folder
from evokernel.core.records import MemoryItem, MemoryKind

REQUIRED_KEYS = {"kind", "title", "source"}
WORK_LIMITS = ("min_flops", "max_flops")
ALLOWED_KEYS = sorted({*REQUIRED_KEYS, *WORK_LIMITS, "bottleneck", "causes", "apis", "family", "families", "always_include", "task"})
"""`task` names the task that the card's code solves. Only tests read it: they verify the code like a candidate."""


def load_seed_cards(backend: str) -> list[MemoryItem]:
    """The backend's knowledge cards in the order of their file names; empty if it has none."""
    return [load_card(path, backend) for path in sorted((plugin_folder("backend", backend) / "knowledge").glob("*.md"))]


def load_card(path: Path, backend: str) -> MemoryItem:
    """One card: front matter of `key: value` lines between two `---` lines, then Markdown."""
    try:
        front_matter, body = split_front_matter(path.read_text(encoding="utf-8"))
        meta = parse_front_matter(front_matter)
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
        causes=split_names(meta.get("causes", "")),
        families=split_names(meta.get("families", "")),
        apis=split_names(meta.get("apis", "")),
        always_include=meta.get("always_include") == "true",
        min_flops=float(meta.get("min_flops", 0)),
        max_flops=float(meta["max_flops"]) if "max_flops" in meta else None,
    )


def split_names(text: str) -> tuple[str, ...]:
    """The names of a list that is separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def split_front_matter(text: str) -> tuple[list[str], str]:
    """The front matter lines and the body of a card."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in (line.strip() for line in lines[1:]):
        raise ValueError("a card begins with front matter between two lines '---'")
    end = next(i for i, line in enumerate(lines) if i and line.strip() == "---")
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        raise ValueError("the card has no text below its front matter")
    return lines[1:end], body


def parse_front_matter(lines: list[str]) -> dict[str, str]:
    """The keys and values of the front matter; ValueError for an unknown, repeated or missing key."""
    meta: dict[str, str] = {}
    for line in filter(str.strip, lines):
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not colon or not value:
            raise ValueError(f"front matter line '{line}' is not 'key: value'")
        if key not in ALLOWED_KEYS:
            raise ValueError(f"unknown front matter '{key}'{did_you_mean(key, ALLOWED_KEYS)}; allowed are: {', '.join(ALLOWED_KEYS)}")
        if key in meta:
            raise ValueError(f"front matter '{key}' is given twice")
        meta[key] = value
    if missing := sorted(REQUIRED_KEYS - meta.keys()):
        raise ValueError(f"front matter lacks {', '.join(missing)}")
    if meta["kind"] not in get_args(MemoryKind):
        raise ValueError(f"kind '{meta['kind']}' must be one of {', '.join(get_args(MemoryKind))}")
    if unknown := [cause for cause in split_names(meta.get("causes", "")) if cause not in CAUSES]:
        raise ValueError(f"unknown cause '{unknown[0]}'{did_you_mean(unknown[0], list(CAUSES))}; allowed are: {', '.join(CAUSES)}")
    if meta.get("always_include", "false") not in ("true", "false"):
        raise ValueError(f"always_include '{meta['always_include']}' must be true or false")
    for key in WORK_LIMITS:
        try:
            float(meta.get(key, 0))
        except ValueError:
            raise ValueError(f"{key} '{meta[key]}' must be a number, such as 4e9") from None
    return meta
