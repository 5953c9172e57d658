"""Imports a candidate's Python file, in the candidate's process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

CANDIDATE_MODULE = "evokernel_candidate"


def import_candidate(path: Path) -> ModuleType:
    """Imports a candidate's file as a module that pickle and inspect find by its name."""
    spec = importlib.util.spec_from_file_location(CANDIDATE_MODULE, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[CANDIDATE_MODULE] = module
    spec.loader.exec_module(module)
    return module
