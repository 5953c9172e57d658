"""What the fake tools share: how each is to behave, and the record of how it was called. Both are files in the fake toolkit's folder,
because the tools are started with few variables.

`modes.json` says tool -> mode: "hang", "killed", "silent" (exit 1 without a word), "fail:<name in signatures.toml>", and what a tool
knows besides.
"""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
HOME = Path(os.environ.get("ASCEND_HOME_PATH", "/nonexistent"))


def mode(tool):
    """How the tool is to behave; "" for well."""
    try:
        return json.loads((HOME / "modes.json").read_text()).get(tool, "")
    except OSError:
        return ""


def behave(tool):
    """Ends the process in the way that the tool's mode asks for, if it asks for one of those that all tools know."""
    wanted = mode(tool)
    if wanted == "hang":
        child = subprocess.Popen(["sleep", "600"])
        Path("grandchild.pid").write_text(str(child.pid))
        time.sleep(600)
    if wanted == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if wanted == "silent":
        sys.exit(1)
    if wanted.startswith("fail:"):
        sys.stdout.write(tomllib.loads((HERE / "signatures.toml").read_text())[wanted.removeprefix("fail:")]["text"])
        sys.exit(1)
    return wanted


def note(folder, tool):
    """Leaves behind how the tool was called."""
    record = {"arguments": sys.argv[1:], "environment": dict(os.environ)}
    (Path(folder) / f"{tool}.called.json").write_text(json.dumps(record))
