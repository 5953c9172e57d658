"""Screens the source text. Little is refused: host code runs once in a sandbox without a device, and device code can only compute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

MAX_SOURCE_BYTES = 256 << 10
PATHS = re.compile(r"^\s*#\s*(?:include|include_next|embed|line)\s*[<\"]\s*(?:/|\.\.|~)[^>\"\n]*", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def find_violations(files: Mapping[str, str]) -> Iterator[str]:
    """Yields each construct that a kernel file may not use."""
    for name, text in sorted(files.items()):
        if len(text.encode(errors="replace")) > MAX_SOURCE_BYTES:
            yield f"{name} is longer than {MAX_SOURCE_BYTES >> 10} KiB; compute values instead of storing tables"
        if match := PATHS.search(text):
            yield f"{name} includes a file by path ({match[0].strip()}); include only headers of the CUDA toolkit and of C++"
        if CONTROL.search(text):
            yield f"{name} contains control characters; remove them"
