"""An operator project as CANN wants it: msopgen makes the tree, the candidate's files take the place of its examples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann import errors
from evokernel.backends.ascendc.cann.tools import run
from evokernel.core.errors import InfraError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project

DESCRIPTION, PRESETS = "operator.json", "CMakePresets.json"
HOST, KERNEL = "op_host", "op_kernel"
GENERATE_S = 60.0


def generate(project: Project, description: str, soc: str, msopgen: str, workdir: Path, environment: Mapping[str, str]) -> Path:
    """Makes `workdir/<operator type>` from msopgen's json and fills it; gives the folder. It must not exist yet."""
    into = workdir / project.op
    if into.exists():
        raise InfraError(f"{into.name} exists in the build folder already: every candidate needs a folder of its own")
    try:
        (workdir / DESCRIPTION).write_text(description)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error.strerror}") from error
    command = [msopgen, "gen", "-i", DESCRIPTION, "-c", f"ai_core-{soc}", "-lan", "cpp", "-out", project.op]
    done = run(command, workdir, environment, GENERATE_S)
    if done.timed_out:
        raise InfraError(f"msopgen did not finish within {GENERATE_S:g} s")
    if done.is_killed:
        raise InfraError("msopgen was killed from outside")
    if done.code:
        raise errors.explain(done.text, errors.GENERATE)
    if not (into / "build.sh").is_file():
        raise InfraError("msopgen ended well but left no build.sh")
    fill(project, into)
    return into


def fill(project: Project, into: Path) -> None:
    """The candidate's files instead of msopgen's examples, whose CMake files stay."""
    placed = places(project)
    for folder in (HOST, KERNEL):
        for example in (into / folder).glob("*"):
            if example.suffix in (".cpp", ".h"):
                example.unlink()
    for made, name in placed.items():
        path = into / made
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(project.files[name])


def places(project: Project) -> dict[str, str]:
    """Where every file goes in the tree: path -> the candidate's name for it. Headers that stand in no folder are seen by both sides."""
    placed: dict[str, str] = {}
    for name in project.files:
        path = PurePosixPath(name)
        if name == project.kernel:
            placed[f"{KERNEL}/{project.entry}.cpp"] = name
        elif project.hosts and name == project.hosts[0]:
            placed[f"{HOST}/{project.entry}.cpp"] = name
        elif name in project.hosts:
            placed[f"{HOST}/{path.name}"] = name
        elif path.parts[0] in (HOST, KERNEL):
            placed[name] = name
        elif path.suffix in (".h", ".hpp"):
            placed |= {f"{folder}/{name}": name for folder in (HOST, KERNEL)}
        elif path.suffix == ".cpp":
            placed[f"{KERNEL}/{name}"] = name
    return placed


def vendor(project: Project) -> str:
    """A name for the package that no other candidate has: the toolkit finds operators by it."""
    text = json.dumps([project.op, project.files], sort_keys=True)
    return f"evokernel_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def preset(folder: Path, home: Path, vendor_name: str) -> None:
    """Tells the project's CMake where the toolkit is, which older templates take for granted, and the package's own name."""
    path = folder / PRESETS
    try:
        presets = json.loads(path.read_text())
        variables = [entry["cacheVariables"] for entry in presets["configurePresets"] if "cacheVariables" in entry]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InfraError(f"msopgen's {PRESETS} cannot be read, so the package cannot be named ({type(error).__name__})") from error
    if not variables:
        raise InfraError(f"msopgen's {PRESETS} has no cache variables: this version of CANN makes other projects")
    wanted = {"ASCEND_CANN_PACKAGE_PATH": ("PATH", str(home)), "vendor_name": ("STRING", vendor_name)}
    for preset in variables:
        for name, (kind, value) in wanted.items():
            preset[name] = {"type": kind, "value": value}
    path.write_text(json.dumps(presets, indent=4))
