"""Environment variables for CANN's tools: only the ones they need, and no others of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evokernel.core.devices import physical_device

INHERITED_VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("ASCEND_HOME_PATH", "ASCEND_INSTALL_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "TOOLCHAIN_HOME"),
)
"""Set by the toolkit's set_env.sh, or paths of programs. ASCEND_CUSTOM_OPP_PATH is excluded, because it disturbs a build."""
DRIVER_LIBRARY_FOLDERS = (
    "/usr/local/Ascend/driver/lib64/driver",
    "/usr/local/Ascend/driver/lib64/common",
    "/usr/local/Ascend/driver/lib64",
)
CUSTOM_OPP_VARIABLE, LIBRARY_PATH_VARIABLE, DEVICE_VARIABLE = "ASCEND_CUSTOM_OPP_PATH", "LD_LIBRARY_PATH", "ASCEND_RT_VISIBLE_DEVICES"
LOG_PATH_VARIABLE = "ASCEND_PROCESS_LOG_PATH"
LOG_FOLDER = "plog"
"""The log folder of the runtime in a candidate's folder."""


class InstalledPackage(NamedTuple):
    """An operator package that is installed for one candidate only."""

    vendor: Path
    """`<install path>/vendors/<vendor name>`."""

    @property
    def library(self) -> Path:
        return self.vendor / "op_api" / "lib" / "libcust_opapi.so"


def build_environment(workdir: Path, home: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables for msopgen, build.sh, bisheng and the installer."""
    inherited = {name: environment[name] for name in INHERITED_VARIABLES if name in environment}
    return {"PATH": os.defpath, **inherited, "ASCEND_HOME_PATH": str(home), "LC_ALL": "C", "HOME": str(workdir), "TMPDIR": str(workdir)}


def run_environment(
    workdir: Path, home: Path, package: InstalledPackage, device: int, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Variables for a process that loads the operator. In that process the NPU always has the number 0."""
    first = [str(package.library.parent), *(place for place in DRIVER_LIBRARY_FOLDERS if Path(place).is_dir())]
    before = environment.get(LIBRARY_PATH_VARIABLE, "")
    own = {
        CUSTOM_OPP_VARIABLE: str(package.vendor),
        LIBRARY_PATH_VARIABLE: os.pathsep.join([*first, before] if before else first),
        DEVICE_VARIABLE: physical_device(device, DEVICE_VARIABLE, environment),
        LOG_PATH_VARIABLE: str(workdir / LOG_FOLDER),
        "ASCEND_GLOBAL_LOG_LEVEL": "3",
    }
    return {**build_environment(workdir, home, environment), **own}


def simulator_environment(home: Path, soc: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The same variables, with the libraries of CANN's simulator first in LD_LIBRARY_PATH."""
    before = environment.get(LIBRARY_PATH_VARIABLE, "")
    place = str(home / "tools" / "simulator" / soc / "lib")
    return {**environment, LIBRARY_PATH_VARIABLE: os.pathsep.join([place, before] if before else [place])}
