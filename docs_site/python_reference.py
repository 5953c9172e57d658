"""Reference pages of the Python API: one for each module that defines public names, made from docstrings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import evokernel

TITLES = {"frames": "Data frames", "operators": "Operators in models"}


def module_pages() -> dict[str, tuple[str, str]]:
    """Return title and text of each page by its path in the site."""
    return {
        f"reference/python/{module}.md": (title := TITLES.get(module, module.capitalize()), module_page(title, module, names))
        for module, names in evokernel.MODULES.items()
    }


def module_page(title: str, module: str, names: tuple[str, ...]) -> str:
    """Return the page of one module: functions first, then classes, in the order of the source."""
    source = module_source(module)
    head = source.partition("\n")[0].strip('"')
    ordered = sorted(names, key=lambda name: (name[0].isupper(), source.find(f" {name}(")))
    entries = [f"::: evokernel.api.{module}.{name}" for name in ordered]
    return "\n\n".join([f"# {title}", head, "`import evokernel as ek` makes these names available as `ek.NAME`.", *entries, ""])


def module_source(module: str) -> str:
    """Return the source of a module of the API, without importing it."""
    spec = find_spec(f"evokernel.api.{module}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()
