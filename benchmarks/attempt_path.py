"""Follows one attempt from `evokernel run` to the journal and the memory bank, and lists the files of the project on its way.

A file is on the way if it is on the call stack at one of the attempt's steps (STEPS): the choice of a context, the generator's reply, the
gates of the verifier, the kernel's call in the candidate process, the reward, the journal, the values and the new memory items. Helpers
that one of these files calls in between are not listed. docs/architecture.md shows the list, and a test compares the two.

    ./dev exec python benchmarks/attempt_path.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import evokernel

HOME = f"{Path(str(evokernel.__file__)).parent}{os.sep}"
STEPS = {
    "run": (
        "choose",
        "search",
        "embed",
        "write",
        "submit",
        "request_outcome",
        "compute_reward",
        "append",
        "learn",
        "update",
        "distill",
        "add",
    ),
    "worker": ("verify", "screen", "build", "start_process", "compute_expected", "find_difference", "build_sanitized", "measure_window_us"),
    "candidate": ("load", "bind", "enter_sandbox"),
}
"""Functions at which the call stack is recorded, by process: the run's, the verifier's and the candidate's."""
RECORDER = """
import os as _os, sys as _sys, threading as _threading
def _record(frame, event, argument, files=set(), names={names!r}, home={home!r}, process={process!r}, write={write}):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(home):
        return
    if process == "worker" and code.co_name == "close" and code.co_filename.endswith("candidate_process.py"):
        for line in frame.f_locals["self"].read_stderr().splitlines():
            if line.startswith("candidate ") and line not in files:
                files.add(line)
                write(line)
    stack = frame if code.co_name in names else None
    while stack:
        if stack.f_code.co_name == "reevaluate_best":  # after the attempts
            return
        stack = stack.f_back
    while frame and code.co_name in names:
        path = frame.f_code.co_filename
        if path.startswith(home) and path.endswith(".py") and path not in files:
            files.add(path)
            write(process + " " + path[len(home):])
        frame = frame.f_back
_sys.setprofile(_record)
_threading.setprofile(_record)
"""
SITE = """
import os, sys
if os.environ.get("ATTEMPT_PATH"):
    exec({worker!r} if "evokernel.executors.worker" in sys.orig_argv else {run!r})
    import evokernel.sandbox.isolated_python as isolated_python
    code = repr({candidate!r}).replace("{{", "{{{{").replace("}}", "}}}}")
    isolated_python.BOOT = isolated_python.BOOT.replace("; from", "; exec(" + code + "); from", 1)
"""


def make_recorder(process: str, output: Path) -> str:
    """Return code that records the call stacks of a process in a file, or on stderr in a process that can write no file."""
    to_file = f"lambda line: open({str(output)!r}, 'a').write(line + chr(10))"
    to_stderr = "lambda line: _os.write(2, (line + chr(10)).encode())"
    return RECORDER.format(names=STEPS[process], home=HOME, process=process, write=to_stderr if process == "candidate" else to_file)


def follow_attempt(folder: Path) -> list[tuple[str, str]]:
    """Run one attempt in `folder` and return the processes and files on its way, in the order in which they are reached."""
    from evokernel.core.plugins import plugin_folder

    output, kernels = folder / "path.txt", folder / "kernels" / "task"
    kernels.mkdir(parents=True)
    samples = plugin_folder("backend", "cpp") / "samples"
    (folder / "task.py").write_text((samples / "task.py").read_text())
    (kernels / "first.cpp").write_text((samples / "good" / "kernel.cpp").read_text())
    site = SITE.format(**{process: make_recorder(process, output) for process in STEPS})
    (folder / "sitecustomize.py").write_text(site)
    options = f"--backend cpp --tasks task.py --budget 1 --fresh --plain --generator from_files --set generator.folder={kernels.parent}"
    command = [sys.executable, "-m", "evokernel.cli.main", "run", *options.split(), "--out", "run"]
    variables = os.environ | {"PYTHONPATH": str(folder), "ATTEMPT_PATH": "1"}
    process = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(process.stdout + process.stderr)
    lines = dict.fromkeys(output.read_text().splitlines())
    return [(process, file) for process, _, file in (line.partition(" ") for line in lines)]


def main() -> None:
    """Print the files with the process in which an attempt reaches them first."""
    with tempfile.TemporaryDirectory() as folder:
        rows = follow_attempt(Path(folder))
    files = {}
    for process, file in rows:
        files.setdefault(file, process)
    for file, process in files.items():
        print(f"{process:10} {file}")
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
