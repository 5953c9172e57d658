"""An agent without a model: it does what its first argument says, through the MCP configuration that its second argument names."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from mcp_clients import GOOD, WRONG, Client, stdio_server

NOTES = Path(os.environ.get("AGENT_NOTES", "/dev/null"))
"""Where the agent writes what it saw, for the tests."""


async def work(client: Client) -> None:
    """Verify twice, look into memory in between, submit the second kernel."""
    task = await client.call("show_task")
    assert "## The entry point" in task.text
    failed = await client.call("verify", kernel=WRONG)
    assert failed.data["reason"] == "mismatch", failed
    hits = await client.call("search_memory", query="vectorise a loop", kinds=["practice"], limit=2)
    item = await client.call("show_item", id=hits.data["hits"][0]["id"])
    kernel = f"// attempt {os.environ['EVOKERNEL_ATTEMPT']}\n{GOOD}"
    good = await client.call("verify", kernel=kernel)
    assert good.data["feasible"], good
    assert (await client.call("profile")).data["candidate"] == good.data["candidate"]
    submitted = await client.call("submit", candidate=good.data["candidate"])
    assert not submitted.is_error
    status = await client.call("budget")
    assert status.data["verifications"] == 2
    with NOTES.open("a") as file:
        file.write(json.dumps({"opened": item.data["id"], "submitted": good.data["candidate"]}) + "\n")


async def work_without_memory(client: Client) -> None:
    """Verify twice and submit; memory is refused."""
    refused = await client.call("search_memory", query="vectorise a loop")
    assert "no access to memory" in refused.text
    assert not (await client.call("verify", kernel=WRONG)).data["feasible"]
    good = await client.call("verify", kernel=GOOD)
    assert not (await client.call("submit", candidate=good.data["candidate"])).is_error


async def verify_only(client: Client) -> None:
    """Verify a correct kernel and a wrong one, submit nothing."""
    await client.call("verify", kernel=GOOD)
    await client.call("verify", kernel=WRONG)


async def exceed(client: Client) -> None:
    """Use more than the budget allows, then submit what there is."""
    answers = [await client.call("verify", kernel="int x;") for _ in range(3)]
    assert [answer.is_error for answer in answers] == [False, True, True], answers
    assert "budget of 1 verifications is spent" in answers[-1].text
    other = await client.call("show_task", task="starter/softmax")
    assert "only" in other.text
    assert other.is_error
    assert not (await client.call("submit", kernel=GOOD)).is_error


async def crash_late(client: Client) -> None:
    """Verify a correct kernel, then die."""
    await client.call("verify", kernel=GOOD)
    os._exit(7)


MODES = {function.__name__: function for function in (work, work_without_memory, verify_only, exceed, crash_late)}


async def run(mode: str, config: Path) -> None:
    entry = json.loads(config.read_text())["mcpServers"]["evokernel"]
    async with stdio_server(Path.cwd(), program=[entry["command"], *entry["args"]]) as client:
        await MODES[mode](client)


def main() -> None:
    mode, config = sys.argv[1], Path(sys.argv[2])
    assert sys.stdin.read() == Path("PROMPT.md").read_text()
    if mode == "crash":
        sys.exit("no key for the model")
    if mode == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        NOTES.write_text(str(child.pid))
        time.sleep(600)
    if mode != "silent":
        asyncio.run(run(mode, config))
    print("done")


if __name__ == "__main__":
    main()
