"""Compares the toolchains that made a memory pack with those of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from evokernel.core.backend import Backend
from evokernel.core.environment import toolchain_versions
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.memory.pack_file import PackHeader


def toolchain_differences(header: PackHeader) -> Iterator[str]:
    """Yield one line per backend whose toolchain differs or is unavailable here; nothing for backends without recorded versions."""
    for name in header.backends:
        pack_versions = [origin.versions for origin in header.runs if origin.backend == name and origin.versions]
        if not pack_versions:
            continue
        try:
            backend: Backend = make_plugin("backend", name)
            unavailable_reason = backend.unavailable_reason()
            local_versions = toolchain_versions(backend) if unavailable_reason is None else {}
        except UserError as error:
            unavailable_reason, local_versions = str(error), {}
        if unavailable_reason is not None:
            yield f"the pack's kernels are for backend '{name}', which is unavailable here: {unavailable_reason}"
            continue
        differences = {
            part: sorted({versions.get(part, "none") for versions in pack_versions} - {local_versions.get(part, "none")})
            for part in dict.fromkeys([*local_versions, *(part for versions in pack_versions for part in versions)])
        }
        texts = [
            f"{part} {' and '.join(others)}, here {local_versions.get(part, 'none')}" for part, others in differences.items() if others
        ]
        if texts:
            yield f"the pack was made with another toolchain for '{name}', so its latencies and values may not apply: {'; '.join(texts)}"
