"""A look at the text. Little is refused: host code runs once, with no device and in a jail, and device code can only compute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

LIMIT_BYTES = 256 << 10
PATHS = re.compile(r"^\s*#\s*(?:include|include_next|embed|line)\s*[<\"]\s*(?:/|\.\.|~)[^>\"\n]*", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def findings(files: Mapping[str, str]) -> Iterator[str]:
    """What has no place in a kernel."""
    for name, text in sorted(files.items()):
        if len(text.encode(errors="replace")) > LIMIT_BYTES:
            yield f"{name} is longer than {LIMIT_BYTES >> 10} KiB"
        if found := PATHS.search(text):
            yield f"{name} includes a file by its path ({found[0].strip()}): headers of the CUDA toolkit and of C++ only"
        if CONTROL.search(text):
            yield f"{name} holds control characters"
