"""Generates an operator project for CANN: msopgen creates the folder, and the candidate's files replace its examples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann import errors
from evokernel.backends.ascendc.cann.tools import run_tool
from evokernel.core.errors import InfraError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project

DESCRIPTION, PRESETS = "operator.json", "CMakePresets.json"
HOST, KERNEL = "op_host", "op_kernel"
GENERATE_TIMEOUT_S = 60.0


def generate_project(project: Project, description: str, soc: str, msopgen: str, workdir: Path, environment: Mapping[str, str]) -> Path:
    """Create `workdir/<operator type>` from msopgen's JSON and write the sources; returns the folder, which must not exist before."""
    into = workdir / project.op
    if into.exists():
        raise InfraError(f"{into.name} already exists in the build folder: every candidate needs a separate folder")
    try:
        (workdir / DESCRIPTION).write_text(description)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error.strerror}") from error
    command = [msopgen, "gen", "-i", DESCRIPTION, "-c", f"ai_core-{soc}", "-lan", "cpp", "-out", project.op]
    result = run_tool(command, workdir, environment, GENERATE_TIMEOUT_S)
    if result.timed_out:
        raise InfraError(f"msopgen did not finish within {GENERATE_TIMEOUT_S:g} s")
    if result.is_killed:
        raise InfraError("msopgen was killed by another process")
    if result.code:
        raise errors.explain_failure(result.text, errors.GENERATE)
    if not (into / "build.sh").is_file():
        raise InfraError("msopgen succeeded but created no build.sh")
    write_candidate_files(project, into)
    return into


def write_candidate_files(project: Project, into: Path) -> None:
    """Replace msopgen's example sources by the candidate's files; its CMake files stay."""
    layout = file_layout(project)
    for folder in (HOST, KERNEL):
        for example in (into / folder).glob("*"):
            if example.suffix in (".cpp", ".h"):
                example.unlink()
    for target, name in layout.items():
        path = into / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(project.files[name])


def file_layout(project: Project) -> dict[str, str]:
    """Candidate file of each path in the project folder. Headers outside a folder are copied to host and kernel."""
    layout: dict[str, str] = {}
    for name in project.files:
        path = PurePosixPath(name)
        if name == project.kernel_file:
            layout[f"{KERNEL}/{project.entry}.cpp"] = name
        elif project.host_files and name == project.host_files[0]:
            layout[f"{HOST}/{project.entry}.cpp"] = name
        elif name in project.host_files:
            layout[f"{HOST}/{path.name}"] = name
        elif path.parts[0] in (HOST, KERNEL):
            layout[name] = name
        elif path.suffix in (".h", ".hpp"):
            layout |= {f"{folder}/{name}": name for folder in (HOST, KERNEL)}
        elif path.suffix == ".cpp":
            layout[f"{KERNEL}/{name}"] = name
    return layout


def unique_vendor_name(project: Project) -> str:
    """A vendor name that is unique to this candidate: the toolkit finds operators by it."""
    text = json.dumps([project.op, project.files], sort_keys=True)
    return f"evokernel_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def configure_presets(folder: Path, home: Path, vendor_name: str) -> None:
    """Set the toolkit's path, which older templates assume, and the vendor name in the CMake presets."""
    path = folder / PRESETS
    try:
        presets = json.loads(path.read_text())
        variables = [entry["cacheVariables"] for entry in presets["configurePresets"] if "cacheVariables" in entry]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InfraError(f"msopgen's {PRESETS} cannot be read, so the vendor name cannot be set ({type(error).__name__})") from error
    if not variables:
        raise InfraError(f"msopgen's {PRESETS} has no cache variables: this version of CANN generates a different project")
    settings = {"ASCEND_CANN_PACKAGE_PATH": ("PATH", str(home)), "vendor_name": ("STRING", vendor_name)}
    for preset in variables:
        for name, (kind, value) in settings.items():
            preset[name] = {"type": kind, "value": value}
    path.write_text(json.dumps(presets, indent=4))
