"""Checks of a built object: imported symbols, static memory and suspicious features. They hold whatever the source text says."""

from __future__ import annotations

import re
from collections.abc import Collection

from evokernel.backends.native.elf import ElfObject
from evokernel.core.errors import CandidateError

MAX_STATIC_BYTES = 256 << 20


def check_imported_symbols(elf_object: ElfObject, allowed: re.Pattern[str], may_use: str, provided_names: Collection[str] = ()) -> None:
    """Raises CandidateError for imported symbols, except allowed ones and those that a library of this project provides."""
    other_names = [name for name in elf_object.symbols.imported_names if name not in provided_names and not allowed.fullmatch(name)]
    if undefined_names := [name for name in other_names if name.startswith("_Z") and not name.startswith(("_ZNSt", "_ZNKSt", "_ZSt"))]:
        raise CandidateError("symbol", f"functions are declared but never defined: {', '.join(map(demangled_name, undefined_names[:5]))}")
    if other_names:
        raise CandidateError("forbidden", f"the kernel calls {', '.join(other_names[:5])}; it may use {may_use}, but no system functions")


def check_kernel_object(elf_object: ElfObject, allowed: re.Pattern[str], may_use: str) -> None:
    """Raises CandidateError for forbidden imports, too much static memory, and features that no honest kernel's object has."""
    check_imported_symbols(elf_object, allowed, may_use)
    if elf_object.loaded_bytes > MAX_STATIC_BYTES:
        raise CandidateError("memory", f"static storage exceeds {MAX_STATIC_BYTES >> 20} MiB; allocate scratch on the heap inside the call")
    if suspicious_features := list(elf_object.find_suspicious_features()):
        raise CandidateError("forbidden", "the built object has features that a kernel may not have: " + "; ".join(suspicious_features))


def demangled_name(symbol: str) -> str:
    """Extracts the function name from a mangled C++ symbol."""
    match = re.match(r"_ZN?K?(\d+)", symbol)
    return symbol[match.end() : match.end() + int(match[1])] if match else symbol
