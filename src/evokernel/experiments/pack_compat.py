"""What a pack was made with, against what this machine has."""

from __future__ import annotations

from collections.abc import Iterator

from evokernel.app.factory import toolchain_versions
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Backend
from evokernel.memory.pack_file import Header


def differences(header: Header) -> Iterator[str]:
    """One line per backend whose toolchain is another one here, or is not here. Of what nobody noted nothing is said."""
    for name in header.backends:
        noted = [origin.versions for origin in header.runs if origin.backend == name and origin.versions]
        if not noted:
            continue
        try:
            backend: Backend = make_plugin("backend", name)
            missing = backend.unavailable_reason()
            here = toolchain_versions(backend) if missing is None else {}
        except UserError as error:
            missing, here = str(error), {}
        if missing is not None:
            yield f"backend '{name}', which the pack's kernels are for, cannot work here: {missing}"
            continue
        others = {
            part: sorted({versions.get(part, "none") for versions in noted} - {here.get(part, "none")})
            for part in dict.fromkeys([*here, *(part for versions in noted for part in versions)])
        }
        changed = [f"{part} {' and '.join(found)}, here {here.get(part, 'none')}" for part, found in others.items() if found]
        if changed:
            yield f"made with another toolchain for '{name}', so that times and values may not hold: {'; '.join(changed)}"
