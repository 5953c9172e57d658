"""Replaces bisheng by g++, with the simulator's headers or the headers of the fake toolkit."""

import re
import subprocess
from pathlib import Path

import fake

FOREIGN = ("--npu-arch", "-xasc", "--run-mode", "-lplatform", "-lregister", "-ltiling_api", "-lruntime")
LAUNCH = re.compile(r"(\w+)<<<([^,]+), nullptr, stream>>>(\(.*\));")


def simulator(words):
    """Compile with the simulator's headers; returns the compiler's exit code."""
    import evokernel

    folder = Path(str(evokernel.__file__)).parent / "backends" / "ascendc" / "simulator"
    kept = [word for word in words if not word.startswith((*FOREIGN, "-lascendcl", "-L", f"-I{fake.HOME}"))]
    places = [f"-I{folder / 'include'}", f"-I{folder / 'runtime'}"]
    return subprocess.run(["g++", *kept, "-w", "-DSIMULATOR_KERNEL_TU", *places]).returncode


def plain(words):
    """Compile programs that launch a kernel directly: a launch becomes a loop over its blocks."""
    kept = []
    for word in words:
        if word.endswith("_main.cpp"):
            text = Path(word).read_text()
            looped = LAUNCH.sub(r"for (fakeBlock = 0; fakeBlock < int64_t(\2); ++fakeBlock) \1\3;", text)
            assert looped != text
            Path("looped.cpp").write_text(looped)
            word = "looped.cpp"
        if not word.startswith(FOREIGN):
            kept.append(word)
    return subprocess.run(["g++", "-w", *kept]).returncode
