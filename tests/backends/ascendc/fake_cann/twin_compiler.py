"""Bisheng's work done by g++ with the twin's headers: the kernel is compiled, and refused where the twin would refuse it."""

import subprocess
import sys
from pathlib import Path

FOREIGN = ("--npu-arch", "-xasc", "--run-mode", "-lascendcl", "-lplatform", "-lregister", "-ltiling_api", "-lruntime", "-L")


def main(words):
    """Takes bisheng's words; ends the process as the compiler ends."""
    import evokernel

    twin = Path(str(evokernel.__file__)).parent / "backends" / "ascendc" / "twin"
    kept = [word for word in words if not word.startswith(FOREIGN)]
    command = ["g++", *kept, "-w", "-DTWIN_KERNEL_TU", f"-I{twin / 'include'}", f"-I{twin / 'runtime'}"]
    sys.exit(subprocess.run(command).returncode)
