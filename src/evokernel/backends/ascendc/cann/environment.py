"""The variables of every process that CANN's tools run in: what they need to find themselves, and nothing else of the user's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evokernel.core.devices import physical_device

PASSED_ON = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("ASCEND_HOME_PATH", "ASCEND_INSTALL_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "TOOLCHAIN_HOME"),
)
"""Set by the toolkit's set_env.sh, or where Python and programs are. ASCEND_CUSTOM_OPP_PATH is not among them: it disturbs a build."""
DRIVER = ("/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/driver/lib64/common", "/usr/local/Ascend/driver/lib64")
CUSTOM, LIBRARIES, DEVICE = "ASCEND_CUSTOM_OPP_PATH", "LD_LIBRARY_PATH", "ASCEND_RT_VISIBLE_DEVICES"
LOG_PATH = "ASCEND_PROCESS_LOG_PATH"
LOGS = "plog"
"""The folder, in a candidate's own, where the runtime leaves its logs."""


class Installed(NamedTuple):
    """An operator package that was installed for one candidate alone."""

    vendor: Path
    """`<install path>/vendors/<vendor name>`."""

    @property
    def library(self) -> Path:
        return self.vendor / "op_api" / "lib" / "libcust_opapi.so"


def for_building(workdir: Path, home: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For msopgen, build.sh, bisheng and the installer."""
    given = {name: environment[name] for name in PASSED_ON if name in environment}
    return {"PATH": os.defpath, **given, "ASCEND_HOME_PATH": str(home), "LC_ALL": "C", "HOME": str(workdir), "TMPDIR": str(workdir)}


def for_running(
    workdir: Path, home: Path, installed: Installed, device: int, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """For a process that loads the operator and its card: inside, the card is always number 0."""
    first = [str(installed.library.parent), *(place for place in DRIVER if Path(place).is_dir())]
    before = environment.get(LIBRARIES, "")
    own = {
        CUSTOM: str(installed.vendor),
        LIBRARIES: os.pathsep.join([*first, before] if before else first),
        DEVICE: physical_device(device, DEVICE, environment),
        LOG_PATH: str(workdir / LOGS),
        "ASCEND_GLOBAL_LOG_LEVEL": "3",
    }
    return {**for_building(workdir, home, environment), **own}


def simulated(home: Path, soc: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The same, with the simulator's libraries before all others."""
    before = environment.get(LIBRARIES, "")
    place = str(home / "tools" / "simulator" / soc / "lib")
    return {**environment, LIBRARIES: os.pathsep.join([place, before] if before else [place])}
