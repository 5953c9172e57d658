"""From an operator project to an operator that can be called: build.sh makes an installer, which installs for this candidate alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evokernel.backends.ascendc.cann import errors
from evokernel.backends.ascendc.cann.environment import Installed
from evokernel.backends.ascendc.cann.tools import run
from evokernel.core.errors import CandidateError, InfraError

OUTPUT, INSTALLER = "build_out", "custom_opp_*.run"
INSTALL_S = 120.0


def build(folder: Path, workdir: Path, environment: Mapping[str, str], timeout_s: float, names: Mapping[str, str]) -> Path:
    """Runs the project's build.sh; gives the installer it made. `names`: a made path -> the candidate's name for it."""
    script = folder / "build.sh"
    script.chmod(0o755)
    done = run(["/bin/bash", str(script)], folder, environment, timeout_s, writable=workdir)
    if done.timed_out:
        raise CandidateError("build_timeout", f"CANN did not build the operator within {timeout_s:g} s: fewer templates and tiling keys")
    if done.is_killed:
        raise CandidateError("killed", "CANN's build was killed from outside, perhaps for lack of memory")
    made = sorted((folder / OUTPUT).glob(INSTALLER))
    if done.code or (not made and errors.known(done.text, errors.BUILD)):  # some versions end well after a compiler has failed
        raise errors.explain(done.text, errors.BUILD, names)
    if not made:
        others = ", ".join(path.name for path in sorted(folder.rglob("*.run"))[:3]) or "no .run at all"
        raise InfraError(f"build.sh ended well but made no {OUTPUT}/{INSTALLER} ({others})")
    return made[0]


def install(installer: Path, workdir: Path, environment: Mapping[str, str], vendor_name: str) -> Installed:
    """Installs into `workdir/opp`, and looks at what came out."""
    into = workdir / "opp"
    into.mkdir(exist_ok=True)
    installer.chmod(0o755)
    command = ["/bin/bash", str(installer), "--quiet", f"--install-path={into}"]
    done = run(command, installer.parent, environment, INSTALL_S, writable=workdir)
    if done.timed_out:
        raise InfraError(f"the operator's installer did not finish within {INSTALL_S:g} s")
    if done.code:
        raise errors.explain(done.text, errors.INSTALL)
    installed = Installed(into / "vendors" / vendor_name)
    if not installed.library.is_file():
        there = ", ".join(sorted(path.name for path in (into / "vendors").glob("*"))) or "nothing"
        raise InfraError(f"the installer ended well but left no {installed.library.name} for {vendor_name} (found: {there})")
    return installed
