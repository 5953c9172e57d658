"""Build script of a fake operator project: compiles the operator with the simulator, adds the interface of an operator package, and
writes an installer.

Modes: those of all tools; "stub" (compiles nothing), "no-run" and "other-run" (no installer, or one with another name, after a
successful build), "quiet-failure" (a compiler error, but exit code 0), "installer-fails" and "installer-empty".
"""

import json
import os
import shutil
import sys
from pathlib import Path

import fake


def main():
    here = Path(sys.argv[1])
    fake.note(here.parent, "build")
    os.chdir(here)
    mode = fake.behave("build")
    output = here / "build_out"
    output.mkdir()
    if mode == "quiet-failure":
        print("op_kernel/kernel_custom.cpp:3:1: error: use of undeclared identifier 'Softmax'")
        return
    if mode in ("stub", "other-run", "no-run", "installer-fails", "installer-empty"):
        (output / "libcust_opapi.so").write_text("no library at all")
    else:
        from operator_package import make

        make(here, output)
    variables = json.loads((here / "CMakePresets.json").read_text())["configurePresets"][0]["cacheVariables"]
    (output / "vendor_name").write_text(variables["vendor_name"]["value"])
    (output / "installer_mode").write_text({"installer-fails": "fail", "installer-empty": "empty"}.get(mode, "well"))
    if mode != "no-run":
        name = "customize.run" if mode == "other-run" else "custom_opp_ubuntu_x86_64.run"
        shutil.copy(fake.HERE / "installer.sh", output / name)


main()
