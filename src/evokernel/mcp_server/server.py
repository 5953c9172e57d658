"""The MCP server: declares the tools with the official SDK and serves them over stdio or streamable HTTP."""

from __future__ import annotations

import hmac
import io
import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, Protocol

import anyio.to_thread
import mcp.types
from pydantic import Field, ValidationError

from evokernel import __version__
from evokernel.core.agent_tools import MAX_HITS, RESULT_TYPES
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Record
from evokernel.mcp_server.results import ToolResult, render_error, render_result

try:  # version 2 of the SDK renamed the class
    from mcp.server.mcpserver import MCPServer  # type: ignore[import-not-found,unused-ignore]
    from mcp.server.mcpserver.exceptions import ToolError  # type: ignore[import-not-found,unused-ignore]
    from mcp.server.mcpserver.tools import Tool  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError
    from mcp.server.fastmcp.tools import Tool

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)
HTTP_PATH = "/mcp"
INSTRUCTIONS = """Write kernels for PyTorch operators and have them verified. Read the task and its rules with show_task, write the whole \
kernel file, call verify, read the failure or the profile, improve the kernel, and hand in the best one with submit. search_memory \
finds knowledge cards and earlier kernels, show_item opens one. budget says how many calls, verifications and seconds are left."""

TaskName = Annotated[str, Field(description="Task as suite/name, such as starter/softmax. The only task of the session if empty.")]
BackendName = Annotated[str, Field(description="Kernel language, such as cpp or triton. The default of the server if empty.")]
KernelText = Annotated[str, Field(description="Text of the kernel's one file.")]
KernelFiles = Annotated[dict[str, str] | None, Field(description="Text of each file by its name, instead of `kernel`.")]
Kinds = Annotated[list[Literal["api", "practice", "experience", "trace"]] | None, Field(description="Kinds of items; all if empty.")]
Limit = Annotated[int, Field(ge=1, le=MAX_HITS, description="Largest number of items.")]


class Caller(Protocol):
    """Answers calls: a session of this process, or one of the run that started the agent."""

    def call(self, tool: str, arguments: dict[str, Any]) -> Record:
        """Answer one call. Raises UserError or InfraError."""


class Tools:
    """The tools; their docstrings and annotations are what agents read. Every call goes to the session, on a thread of its own."""

    def __init__(self, session: Caller) -> None:
        self.session = session

    async def answer(self, tool: str, **arguments: Any) -> mcp.types.CallToolResult:
        """Answer one call."""
        return await anyio.to_thread.run_sync(lambda: to_sdk_result(call_tool(self.session, tool, arguments)))

    async def list_tasks(
        self,
        spec: Annotated[str, Field(description="A suite, such as starter, or suite/pattern; all suites if empty.")] = "",
    ) -> mcp.types.CallToolResult:
        """List tasks: PyTorch operators to write kernels for."""
        return await self.answer("list_tasks", spec=spec)

    async def show_task(
        self,
        task: TaskName = "",
        backend: BackendName = "",
        cards: Annotated[bool, Field(description="Also list the memory items that fit the task.")] = False,
    ) -> mcp.types.CallToolResult:
        """Show a task: reference, entry point, rules of the kernel language, sizes and tolerances."""
        return await self.answer("show_task", task=task, backend=backend, cards=cards)

    async def verify(
        self, task: TaskName = "", kernel: KernelText = "", files: KernelFiles = None, backend: BackendName = ""
    ) -> mcp.types.CallToolResult:
        """Verify a kernel: screen, build, check results, sanitize, time. Says which gate failed and why, or how fast the kernel is."""
        return await self.answer("verify", task=task, kernel=kernel, files=files, backend=backend)

    async def profile(
        self,
        candidate: Annotated[str, Field(description="Id of a kernel verified in this session; the last one if empty.")] = "",
    ) -> mcp.types.CallToolResult:
        """Explain the latency of a verified kernel: its bottleneck and what it would gain without each cause, with source lines."""
        return await self.answer("profile", candidate=candidate)

    async def search_memory(
        self,
        query: Annotated[str, Field(description="What to look for: a technique, an operator or code.")],
        kinds: Kinds = None,
        limit: Limit = 5,
        backend: BackendName = "",
    ) -> mcp.types.CallToolResult:
        """Search knowledge cards, lessons and earlier kernels by meaning; lists ids and titles."""
        return await self.answer("search_memory", query=query, kinds=kinds, limit=limit, backend=backend)

    async def show_item(self, id: Annotated[str, Field(description="Id of the memory item.")]) -> mcp.types.CallToolResult:
        """Open a memory item: its text and its code."""
        return await self.answer("show_item", id=id)

    async def submit(
        self,
        task: TaskName = "",
        candidate: Annotated[str, Field(description="Id of a verified kernel; otherwise give `kernel` or `files`.")] = "",
        kernel: KernelText = "",
        files: KernelFiles = None,
        backend: BackendName = "",
    ) -> mcp.types.CallToolResult:
        """Hand in the final kernel. A later submission replaces an earlier one."""
        return await self.answer("submit", task=task, candidate=candidate, kernel=kernel, files=files, backend=backend)

    async def budget(self) -> mcp.types.CallToolResult:
        """Say how many calls, verifications and seconds are used, and the limits. Costs nothing."""
        return await self.answer("budget")


class ToolServer(MCPServer):  # type: ignore[misc,unused-ignore]
    """The SDK's server. It ignores arguments that a tool does not have; this one refuses them, and says in one line what is wrong."""

    def __init__(self, tools: list[Tool]) -> None:
        super().__init__("evokernel", instructions=INSTRUCTIONS, log_level="WARNING", tools=tools)
        self.arguments: dict[str, list[str]] = {tool.name: list(tool.parameters.get("properties", {})) for tool in tools}
        for name in ("_mcp_server", "_lowlevel_server"):  # versions 1 and 2 of the SDK
            if hasattr(self, name):
                getattr(self, name).version = __version__

    async def call_tool(self, name: str, arguments: dict[str, Any], *more: Any, **options: Any) -> Any:
        """Answer a call, or name the arguments of the tool."""
        if unknown := sorted(set(arguments) - set(self.arguments.get(name, arguments))):
            return refuse_arguments(name, self.arguments[name], f"has no argument {', '.join(map(repr, unknown))}")
        try:
            return await super().call_tool(name, arguments, *more, **options)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            mistakes = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.__cause__.errors()]
            return refuse_arguments(name, self.arguments[name], f"got a wrong argument ({'; '.join(mistakes)})")


def refuse_arguments(tool: str, names: list[str], mistake: str) -> mcp.types.CallToolResult:
    """The answer to a call whose arguments do not fit the tool."""
    return to_sdk_result(render_error(f"the tool '{tool}' {mistake}. Its arguments: {', '.join(names) or 'none'}."))


def build_server(session: Caller) -> ToolServer:
    """Declare the tools."""
    tools = [Tool.from_function(getattr(Tools(session), name)) for name in RESULT_TYPES]
    for tool in tools:
        tool.parameters["additionalProperties"] = False
    return ToolServer(tools)


def call_tool(session: Caller, tool: str, arguments: dict[str, Any]) -> ToolResult:
    """Answer a call. A mistake of the agent, a spent budget and a dead worker are results that say so."""
    try:
        return render_result(tool, session.call(tool, arguments))
    except UserError as error:
        return render_error(str(error))
    except CandidateError as error:
        return render_error(error.detail)
    except InfraError as error:
        return render_error(f"the verification could not be completed ({error}). Try again.")


def to_sdk_result(result: ToolResult) -> mcp.types.CallToolResult:
    """The answer as the SDK sends it; by the names of the protocol, which both versions of the SDK read."""
    content = [{"type": "text", "text": result.text}]
    return mcp.types.CallToolResult.model_validate({"content": content, "structuredContent": result.data, "isError": result.is_error})


class StandardOutput(io.TextIOBase):
    """Standard output of a server on stdio: only the SDK, which writes to `buffer`, reaches the client; prints go to standard error."""

    def __init__(self, protocol_stream: BinaryIO) -> None:
        self.buffer = protocol_stream

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def serve_stdio(server: MCPServer) -> None:
    """Serve until standard input ends. What references, libraries or children print goes to standard error."""
    protocol_stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = StandardOutput(protocol_stream)
    server.run("stdio")


def serve_http(server: MCPServer, listener: socket.socket, token: str) -> None:
    """Serve on a socket until the process is asked to stop."""
    import uvicorn

    app = require_token(make_http_app(server), token)
    settings: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False, "lifespan": "on"}
    uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=3, **settings)).run(sockets=[listener])


def make_http_app(server: MCPServer) -> ASGIApp:
    """The streamable HTTP application at `/mcp`. The token replaces the SDK's list of host names: no other site can know it."""
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    make_app: Callable[..., ASGIApp] = server.streamable_http_app
    if hasattr(server.settings, "transport_security"):  # version 1 of the SDK
        server.settings.transport_security = security
        return make_app()
    return make_app(transport_security=security)


def require_token(app: ASGIApp, token: str) -> ASGIApp:
    """Refuse requests that do not carry the token."""
    from starlette.datastructures import Headers
    from starlette.responses import PlainTextResponse

    refusal = PlainTextResponse("Send the header 'Authorization: Bearer TOKEN' with the token of this server.", 401)

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        sent = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ") if scope["type"] == "http" else token
        is_valid = hmac.compare_digest(sent.encode(), token.encode())
        await (app if is_valid else refusal)(scope, receive, send)

    return guard
