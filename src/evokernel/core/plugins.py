"""Finds plug-ins by folder name, entry point or `module:Class`, and constructs them from settings."""

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
    """The values that a setting annotated with a plain type accepts."""

    description: str
    types: tuple[type, ...]

    def accepts(self, value: object) -> bool:
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))


SETTING_TYPES = {
    "int": SettingType("an integer", (int,)),
    "float": SettingType("a number", (int, float)),
    "bool": SettingType("true or false", (bool,)),
    "str": SettingType("a string", (str,)),
}
PLUGIN_PACKAGES = {"backend": "backends", "generator": "generators", "policy": "policies", "executor": "executors", "embedder": "embedders"}


def find_plugin(kind: str, name: str) -> Any:
    """Import and return the class of a plug-in. The late import keeps missing dependencies from breaking other plug-ins."""
    if not isinstance(name, str):
        raise UserError(f"{kind} is {name!r}, but must be a name; available: {', '.join(plugin_names(kind))}")
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UserError(f"cannot load {kind} '{name}': {error}. Use module:Class with a module on the Python path.") from error
    for entry in entry_points_for(kind):
        if entry.name == name:
            return entry.load()
    if name not in plugin_names(kind):
        names = plugin_names(kind)
        raise UserError(f"unknown {kind} '{name}'{did_you_mean(name, names)}; available: {', '.join(names)}")
    try:
        return importlib.import_module(f"evokernel.{PLUGIN_PACKAGES[kind]}.{name}").plugin
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evokernel"):
            raise
        raise UserError(f"{kind} '{name}' needs the package '{error.name}'. Install it with: pip install 'evokernel[{name}]'") from error


def plugin_names(kind: str) -> list[str]:
    """List the plug-ins of a kind: those of this package and those registered as entry points."""
    folder = Path(str(resources.files("evokernel"))) / PLUGIN_PACKAGES[kind]
    modules = {p.stem for p in folder.iterdir() if not p.name.startswith("_") and ((p / "__init__.py").exists() or p.suffix == ".py")}
    return sorted({name for name in modules if has_plugin(folder / name)} | {entry.name for entry in entry_points_for(kind)})


def entry_points_for(kind: str) -> EntryPoints:
    """Return the entry points of a kind from other installed packages."""
    return load_entry_points(f"evokernel.{PLUGIN_PACKAGES[kind]}", tuple(sys.path))


@lru_cache
def load_entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Load the entry points of a group, cached per sys.path: it reads the metadata of every installed package."""
    return entry_points(group=group)


def has_plugin(path: Path) -> bool:
    """Return whether a module defines `plugin`. It reads the source, so that listing plug-ins imports nothing."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = file.read_text()
    return "plugin =" in text or "as plugin" in text


def check_settings(kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Check settings against the constructor of a plug-in and return its class; constructs nothing."""
    cls = find_plugin(kind, name)
    names = sorted(set(signature(cls).parameters))
    for setting in settings:
        if setting not in names:
            available = ", ".join(names) or "none"
            raise UserError(f"{kind} '{name}' has no setting '{setting}'{did_you_mean(setting, names)}; available settings: {available}")
        expected = SETTING_TYPES.get(str(signature(cls).parameters[setting].annotation))
        if expected and not expected.accepts(settings[setting]):
            raise UserError(f"setting {kind}.{setting} = {settings[setting]!r} must be {expected.description}")
    return cls


def make_plugin(kind: str, name: str, **settings: Any) -> Any:
    """Construct a plug-in from settings."""
    cls = check_settings(kind, name, settings)
    if kind == "backend":
        from evokernel.core.backend import Backend  # it loads numpy

        if not issubclass(cls, Backend):
            raise UserError(f"backend '{name}' is not a Backend. Let its class inherit from evokernel.core.backend.Backend.")
    try:
        return cls(**settings)
    except (TypeError, ValueError) as error:
        raise UserError(f"{kind} '{name}': {error}") from error


def accepts_setting(kind: str, name: str, setting: str) -> bool:
    """Return whether the constructor of a plug-in takes this setting."""
    return setting in signature(find_plugin(kind, name)).parameters


def plugin_folder(kind: str, name: str) -> Path:
    """Return the folder with the data files of a plug-in: `knowledge/`, `prompts/`, `samples/`."""
    module = importlib.import_module(find_plugin(kind, name).__module__)
    return Path(str(module.__file__)).parent


def did_you_mean(word: str, known: list[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest known word, or an empty text."""
    matches = get_close_matches(word, known, 1)
    return f" (did you mean '{matches[0]}'?)" if matches else ""
