"""Packages beyond the project's own: those of an extra, and those in the `requirements.txt` of a plug-in, with exact versions."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evokernel.core.errors import UserError

REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*(?:==\s*([\w.+!-]+))?")


def find_missing_requirement(plugin: type) -> str | None:
    """Return which package of a plug-in's `requirements.txt` is missing and how to install it; None if none is."""
    file = Path(str(sys.modules[plugin.__module__].__file__)).parent / "requirements.txt"
    if not file.is_file():
        return None
    for line in file.read_text().splitlines():
        if line.lstrip().startswith("#") or not (match := REQUIREMENT.match(line)):
            continue
        package, wanted = match[1], match[2]
        try:
            installed = version(package)
        except PackageNotFoundError:
            return f"the package {package} is not installed; run: pip install {match[0].strip()}"
        if wanted and installed != wanted:
            return f"{package} {installed} is installed, but {wanted} is needed; run: pip install {match[0].strip()}"
    return None


def require_extra(purpose: str, extra: str, modules: Sequence[str]) -> None:
    """Raise UserError with the command that installs an extra if one of its modules is missing."""
    if missing := [name for name in modules if importlib.util.find_spec(name) is None]:
        raise UserError(f"{purpose} needs {' and '.join(missing)}. Install with: pip install 'evokernel[{extra}]'")
