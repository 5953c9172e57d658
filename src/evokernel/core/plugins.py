"""Finds plug-ins by folder name, by entry point, or by `module:Class`, and makes them from settings."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from importlib.metadata import EntryPoints, entry_points
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import UserError


class SettingType(NamedTuple):
    """What a setting annotated with a plain type takes."""

    words: str
    types: tuple[type, ...]

    def fits(self, value: object) -> bool:
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))


PLAIN = {
    "int": SettingType("a whole number", (int,)),
    "float": SettingType("a number", (int, float)),
    "bool": SettingType("true or false", (bool,)),
    "str": SettingType("a text", (str,)),
}
KINDS = {"backend": "backends", "generator": "generators", "policy": "policies", "executor": "executors", "embedder": "embedders"}


def find_plugin(kind: str, name: str) -> Any:
    """The class of a plug-in; imported only now, so a missing dependency never breaks what does not need it."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UserError(f"{kind} '{name}' cannot be loaded: {error}; write it as module:Class, importable from here") from error
    for entry in entry_points_for(kind):
        if entry.name == name:
            return entry.load()
    if name not in plugin_names(kind):
        raise UserError(f"no {kind} called '{name}'{did_you_mean(name, plugin_names(kind))}; there are: {', '.join(plugin_names(kind))}")
    try:
        return importlib.import_module(f"evokernel.{KINDS[kind]}.{name}").plugin
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evokernel"):
            raise
        raise UserError(f"{kind} '{name}' needs the package '{error.name}': pip install 'evokernel[{name}]'") from error


def plugin_names(kind: str) -> list[str]:
    """Every plug-in of a kind that ships with the package or is registered as an entry point."""
    folder = Path(str(resources.files("evokernel"))) / KINDS[kind]
    shipped = {p.stem for p in folder.iterdir() if not p.name.startswith("_") and ((p / "__init__.py").exists() or p.suffix == ".py")}
    return sorted({n for n in shipped if has_plugin(folder / n)} | {entry.name for entry in entry_points_for(kind)})


def entry_points_for(kind: str) -> EntryPoints:
    """Plug-ins of other packages."""
    return load_entry_points(f"evokernel.{KINDS[kind]}", tuple(sys.path))


@lru_cache
def load_entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Once per place they may be in: it means to read what every installed package says of itself."""
    return entry_points(group=group)


def has_plugin(path: Path) -> bool:
    """Whether a module defines `plugin`, read from its text so that asking imports nothing."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = file.read_text()
    return "plugin =" in text or "as plugin" in text


def check_settings(kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    """The class of a plug-in that takes these settings, of which none is made; an unknown one is refused with the list of known ones."""
    cls = find_plugin(kind, name)
    known = sorted(set(signature(cls).parameters))
    for setting in settings:
        if setting not in known:
            there = ", ".join(known) or "none"
            raise UserError(f"{kind} '{name}' has no setting '{setting}'{did_you_mean(setting, known)}; it has: {there}")
        wanted = PLAIN.get(str(signature(cls).parameters[setting].annotation))
        if wanted and not wanted.fits(settings[setting]):
            raise UserError(f"setting {kind}.{setting} = {settings[setting]!r} must be {wanted.words}")
    return cls


def make_plugin(kind: str, name: str, **settings: Any) -> Any:
    """A plug-in made from settings."""
    cls = check_settings(kind, name, settings)
    try:
        return cls(**settings)
    except (TypeError, ValueError) as error:
        raise UserError(f"{kind} '{name}': {error}") from error


def accepts_setting(kind: str, name: str, setting: str) -> bool:
    """Whether a plug-in's constructor takes this setting."""
    return setting in signature(find_plugin(kind, name)).parameters


def plugin_folder(kind: str, name: str) -> Path:
    """Where a plug-in keeps its own files: `knowledge/`, `prompts/`, `samples/`."""
    module = importlib.import_module(find_plugin(kind, name).__module__)
    return Path(str(module.__file__)).parent


def did_you_mean(word: str, known: list[str]) -> str:
    """` (did you mean 'x'?)` or nothing."""
    near = get_close_matches(word, known, 1)
    return f" (did you mean '{near[0]}'?)" if near else ""
