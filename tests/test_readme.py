"""Runs the commands of the README: everyday commands in an empty folder, model commands against a local service."""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_server import Behaviour, ChatServer
from sampling import one_in

from evokernel.core.plugins import make_plugin, plugin_folder

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
CARDS = {name: (plugin_folder("backend", name) / "knowledge" / "softmax-rows.md").read_text() for name in ("cpp", "pallas")}
REPLY = re.findall(r"```cpp\n.*?```\n", CARDS["cpp"], re.DOTALL)[0]
QUICK = " --set protocol=paper --set clock=synthetic"
"""Added to every run: the strict protocol and a real clock take most of the time, and other tests cover them."""
SMALLER = {"run": f" --budget 2 --workers 1{QUICK}", "selftest": " --workers 1"}
"""Added to everyday commands, because each further worker loads PyTorch."""
SHORT = f" --tasks starter/softmax --budget 1 --backend cpp{QUICK}"


def command_lines(text: str) -> list[str]:
    """The command lines of the block that contains a text."""
    (block,) = [one for one in BLOCKS if text in one]
    return [line.partition("  #")[0].strip() for line in block.splitlines() if line.startswith("evokernel ")]


def run_line(line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)[1:]
    return subprocess.run(
        [sys.executable, "-m", "evokernel.cli.main", *words], cwd=folder, capture_output=True, text=True, env={**os.environ, **env}
    )


@pytest.mark.slow(one_in=2)
@pytest.mark.skipif(bool(reason := make_plugin("backend", "pallas").unavailable_reason()), reason=str(reason))
def test_everyday_commands_succeed(tmp_path):
    (tmp_path / "kernel.py").write_text(re.findall(r"```python\n(.*?)```", CARDS["pallas"], re.DOTALL)[0])
    lines = command_lines("evokernel doctor")
    assert len(lines) >= 7
    for line in lines:
        runs = [path.name for path in (tmp_path / "runs").iterdir()] if (tmp_path / "runs").exists() else [""]
        completed = run_line(line.replace("<id>", runs[0]) + SMALLER.get(line.split()[1], ""), tmp_path)
        assert completed.returncode == 0, (line, completed.stdout[-2000:], completed.stderr[-2000:])
        assert "Traceback" not in completed.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "kernels").glob("**/test_kernel.py"))


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("line", one_in(3, [line for line in command_lines("generator.budget_usd") if "--generator llm" in line]))
def test_model_commands_solve_the_task(line, tmp_path):
    with ChatServer(lambda request, n: Behaviour(text=REPLY)) as server:
        service = f" --set generator.base_url={server.base_url} --set generator.price_in=1 --set generator.price_out=1"
        completed = run_line(line + SHORT + service, tmp_path, OPENAI_API_KEY="none", EVOKERNEL_API_KEY="none")
        assert completed.returncode == 0, completed.stderr
        assert "100 %" in completed.stdout


@pytest.mark.slow(one_in=2)
def test_command_and_file_exchange_generators_answer(tmp_path):
    command, file_exchange = (line for line in command_lines("generator.budget_usd") if "--generator llm" not in line)
    reply = tmp_path / "reply.md"
    reply.write_text(REPLY)
    agent = tmp_path / "my-agent"
    agent.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {reply}\n")
    agent.chmod(0o755)
    completed = run_line(command + SHORT, tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (completed.returncode, "100 %" in completed.stdout) == (0, True), completed.stderr
    inbox = tmp_path / "inbox"
    process = subprocess.Popen(
        [sys.executable, "-m", "evokernel.cli.main", *shlex.split(file_exchange + SHORT)[1:]],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not (prompts := list(inbox.glob("*.prompt.md"))) and process.poll() is None:
            time.sleep(0.05)
        os.link(reply, str(prompts[0]).replace(".prompt.md", ".reply.md"))
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, "100 %" in out) == (0, True), out
