"""The SDK's own client, connected to `evokernel mcp` over either transport."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import evokernel.backends.cpp

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
TASK_FILE = SAMPLES / "task.py"
GOOD = (SAMPLES / "good" / "kernel.cpp").read_text()
WRONG = (SAMPLES / "mismatch-formula" / "kernel.cpp").read_text()
TOOLS = {"list_tasks", "show_task", "verify", "profile", "search_memory", "show_item", "submit", "budget"}
PROGRAM = [sys.executable, "-m", "evokernel.cli.main", "mcp", "--set", "clock=synthetic"]


class Answer(NamedTuple):
    """The result of a call, whatever the version of the SDK calls its fields."""

    text: str
    data: dict[str, Any]
    is_error: bool


class Client:
    """Calls tools and returns plain answers."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, **arguments: Any) -> Answer:
        result = (await self.session.call_tool(tool, arguments)).model_dump(mode="json", by_alias=True)
        return Answer(result["content"][0]["text"], result.get("structuredContent") or {}, bool(result["isError"]))


@asynccontextmanager
async def connect(read: Any, write: Any) -> AsyncIterator[Client]:
    async with ClientSession(read, write) as session:
        await session.initialize()
        assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
        yield Client(session)


@asynccontextmanager
async def stdio_server(folder: Path, *options: str, program: Sequence[str] = PROGRAM) -> AsyncIterator[Client]:
    """A server that the client starts itself."""
    server = StdioServerParameters(command=program[0], args=[*program[1:], *options], env=dict(os.environ), cwd=str(folder))
    async with stdio_client(server) as (read, write), connect(read, write) as client:
        yield client


@asynccontextmanager
async def http_server(folder: Path, *options: str) -> AsyncIterator[Client]:
    """A server on a free port of this machine, which prints its address and token."""
    process = subprocess.Popen(
        [*PROGRAM, "--http", "--port", "0", *options], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        match = re.search(r"at (http://\S+) with the header 'Authorization: Bearer (\S+)'", line)
        assert match, line + process.stderr.read()
        async with http_streams(match[1], match[2]) as (read, write), connect(read, write) as client:
            yield client
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=30)
        assert output == "", "standard output stays empty"


@asynccontextmanager
async def http_streams(address: str, token: str) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of the client for streamable HTTP, with the token in every request."""
    import httpx
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        streamable_http_client(address, http_client=http) as (read, write, *_),
    ):
        yield read, write
