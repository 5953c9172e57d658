"""What the README shows, as it stands but for the clock and less of it: everyday commands in an empty folder, models by a local service."""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_server import Behaviour, ChatServer

from evokernel.core.plugins import make_plugin, plugin_folder

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
CARDS = {name: (plugin_folder("backend", name) / "knowledge" / "softmax-rows.md").read_text() for name in ("cpp", "pallas")}
REPLY = re.findall(r"```cpp\n.*?```\n", CARDS["cpp"], re.DOTALL)[0]
QUICK = " --set protocol=paper --set clock=synthetic"
"""Added to every run: a closer look and a real clock take most of the time, and are tested elsewhere."""
LESS = {"run": f" --budget 2 --workers 1{QUICK}", "selftest": " --workers 1"}
"""Added to everyday commands: each further worker loads PyTorch."""
SHORT = f" --tasks starter/softmax --budget 1 --backend cpp{QUICK}"


def block(holding: str) -> list[str]:
    """The command lines of the block that holds a text."""
    (found,) = [text for text in BLOCKS if holding in text]
    return [line.partition("  #")[0].strip() for line in found.splitlines() if line.startswith("evokernel ")]


def call(line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)[1:]
    return subprocess.run(
        [sys.executable, "-m", "evokernel.cli.main", *words], cwd=folder, capture_output=True, text=True, env={**os.environ, **env}
    )


@pytest.mark.skipif(bool(why := make_plugin("backend", "pallas").missing()), reason=str(why))
def test_the_everyday_commands(tmp_path):
    (tmp_path / "kernel.py").write_text(re.findall(r"```python\n(.*?)```", CARDS["pallas"], re.DOTALL)[0])
    lines = block("evokernel doctor")
    assert len(lines) >= 7
    for line in lines:
        runs = [path.name for path in (tmp_path / "runs").iterdir()] if (tmp_path / "runs").exists() else [""]
        done = call(line.replace("<id>", runs[0]) + LESS.get(line.split()[1], ""), tmp_path)
        assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
        assert "Traceback" not in done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "kernels").glob("**/test_kernel.py"))


@pytest.mark.parametrize("line", [line for line in block("generator.budget_usd") if "--generator llm" in line])
def test_the_model_commands(line, tmp_path):
    with ChatServer(lambda request, n: Behaviour(text=REPLY)) as server:
        done = call(f"{line}{SHORT} --set generator.base_url={server.base_url}", tmp_path, OPENAI_API_KEY="none", EVOKERNEL_API_KEY="none")
        assert done.returncode == 0, done.stderr
        assert "100 %" in done.stdout


def test_a_program_and_a_mailbox_answer_too(tmp_path):
    program, mailbox = (line for line in block("generator.budget_usd") if "--generator llm" not in line)
    reply = tmp_path / "reply.md"
    reply.write_text(REPLY)
    agent = tmp_path / "my-agent"
    agent.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {reply}\n")
    agent.chmod(0o755)
    done = call(program + SHORT, tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, "100 %" in done.stdout) == (0, True), done.stderr
    inbox = tmp_path / "inbox"
    waiting = subprocess.Popen(
        [sys.executable, "-m", "evokernel.cli.main", *shlex.split(mailbox + SHORT)[1:]],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not (asked := list(inbox.glob("*.prompt.md"))) and waiting.poll() is None:
            time.sleep(0.05)
        os.link(reply, str(asked[0]).replace(".prompt.md", ".reply.md"))
        out, _ = waiting.communicate(timeout=120)
    finally:
        waiting.kill()
    assert (waiting.returncode, "100 %" in out) == (0, True), out
