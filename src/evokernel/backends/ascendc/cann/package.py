"""Builds and installs an operator project: build.sh creates an installer, which installs the package for one candidate only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evokernel.backends.ascendc.cann import errors
from evokernel.backends.ascendc.cann.environment import InstalledPackage
from evokernel.backends.ascendc.cann.tools import run_tool
from evokernel.core.errors import CandidateError, InfraError

OUTPUT, INSTALLER = "build_out", "custom_opp_*.run"
INSTALL_TIMEOUT_S = 120.0


def build_package(folder: Path, workdir: Path, environment: Mapping[str, str], timeout_s: float, names: Mapping[str, str]) -> Path:
    """Run the project's build.sh; returns the installer. `names` maps generated paths to the candidate's file names."""
    script = folder / "build.sh"
    script.chmod(0o755)
    result = run_tool(["/bin/bash", str(script)], folder, environment, timeout_s, writable=workdir)
    if result.timed_out:
        raise CandidateError(
            "build_timeout", f"CANN did not build the operator within {timeout_s:g} s: use fewer templates and tiling keys"
        )
    if result.is_killed:
        raise CandidateError("killed", "another process killed CANN's build, perhaps for lack of memory")
    installers = sorted((folder / OUTPUT).glob(INSTALLER))
    if result.code or (
        not installers and errors.match_pattern(result.text, errors.BUILD)
    ):  # some versions exit with 0 after a compiler error
        raise errors.explain_failure(result.text, errors.BUILD, names)
    if not installers:
        others = ", ".join(path.name for path in sorted(folder.rglob("*.run"))[:3]) or "no .run file"
        raise InfraError(f"build.sh succeeded but created no {OUTPUT}/{INSTALLER} ({others})")
    return installers[0]


def install_package(installer: Path, workdir: Path, environment: Mapping[str, str], vendor_name: str) -> InstalledPackage:
    """Install into `workdir/opp` and check the result."""
    into = workdir / "opp"
    into.mkdir(exist_ok=True)
    installer.chmod(0o755)
    command = ["/bin/bash", str(installer), "--quiet", f"--install-path={into}"]
    result = run_tool(command, installer.parent, environment, INSTALL_TIMEOUT_S, writable=workdir)
    if result.timed_out:
        raise InfraError(f"The installer of the operator did not finish within {INSTALL_TIMEOUT_S:g} s")
    if result.code:
        raise errors.explain_failure(result.text, errors.INSTALL)
    package = InstalledPackage(into / "vendors" / vendor_name)
    if not package.library.is_file():
        there = ", ".join(sorted(path.name for path in (into / "vendors").glob("*"))) or "nothing"
        raise InfraError(
            f"The installer succeeded but installed no {package.library.name} for {vendor_name} (found: {there}); check the installation"
        )
    return package
