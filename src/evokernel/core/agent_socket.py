"""The connection between an agent's MCP server and the run that started the agent: JSON lines over a Unix socket, with a token."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.agent_tools import ToolSession
from evokernel.core.errors import CandidateError, InfraError, StopRun, UserError

CONNECTION_FILE = "connection.json"
SOCKET_FILE = "tools.sock"
MAX_REQUEST_BYTES = 8_000_000
RUN_ENDED = "the run that started this session has ended or was stopped"


class Connection(NamedTuple):
    """Where the run listens, and the token that it expects."""

    socket: str
    token: str


class SessionServer:
    """Answers the calls for one session while an agent runs. Closing it waits for the calls in progress and refuses later ones."""

    def __init__(self, folder: Path, session: ToolSession) -> None:
        self.session, self.connection = session, Connection(str(folder / SOCKET_FILE), secrets.token_urlsafe(24))
        self.calls = threading.Condition()
        self.running_calls, self.is_closed = 0, False
        self.server = make_socket_server(self)
        path = folder / CONNECTION_FILE
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.connection._asdict()))
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to one request; errors have a kind, so that the other side raises the same exception."""
        try:
            request = json.loads(line)
            token, tool, arguments = str(request["token"]), str(request["tool"]), dict(request["arguments"])
        except (ValueError, TypeError, KeyError):
            return {"error": "the request is not valid", "kind": "user"}
        if not hmac.compare_digest(token.encode(), self.connection.token.encode()):
            return {"error": "the token is not that of this session", "kind": "user"}
        with self.calls:
            if self.is_closed:
                return {"error": RUN_ENDED, "kind": "infra"}
            self.running_calls += 1
        try:
            return {"result": self.session.call(tool, arguments).model_dump(mode="json")}
        except (UserError, CandidateError, TypeError) as error:
            return {"error": str(error), "kind": "user"}
        except (InfraError, StopRun) as error:
            return {"error": str(error), "kind": "infra"}
        finally:
            with self.calls:
                self.running_calls -= 1
                self.calls.notify_all()

    def close(self) -> None:
        """Refuse further calls, and wait for those in progress: what they verify belongs to the attempt."""
        with self.calls:
            self.is_closed = True
            self.calls.wait_for(lambda: self.running_calls == 0)
        self.server.shutdown()
        self.server.server_close()


def make_socket_server(owner: SessionServer) -> socketserver.ThreadingUnixStreamServer:
    """A server that reads one request per line and answers it, each connection on its own thread."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                while line := self.rfile.readline(MAX_REQUEST_BYTES):
                    self.wfile.write(json.dumps(owner.answer(line)).encode() + b"\n")
            except OSError:
                return  # the agent is gone

    server = socketserver.ThreadingUnixStreamServer(owner.connection.socket, Handler, bind_and_activate=True)
    server.daemon_threads = True
    server.block_on_close = False
    return server


def read_connection(folder: Path) -> Connection:
    """The connection of a session's folder. Raises UserError if there is none."""
    try:
        return Connection(**json.loads((folder / CONNECTION_FILE).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{folder} is not the folder of an agent's session, or the session has ended") from error


def send_call(connection: Connection, tool: str, arguments: Mapping[str, Any]) -> Any:
    """Send one call and return its result. Raises UserError or InfraError as the run reports it, InfraError if the run is gone."""
    request = json.dumps({"token": connection.token, "tool": tool, "arguments": dict(arguments)}).encode() + b"\n"
    if len(request) > MAX_REQUEST_BYTES:
        raise UserError(f"the call is longer than {MAX_REQUEST_BYTES} bytes. Send a shorter kernel.")
    try:
        with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as reader:
            client.connect(connection.socket)
            client.sendall(request)
            reply = json.loads(reader.readline())
    except (OSError, ValueError) as error:
        raise InfraError(RUN_ENDED) from error
    if "error" in reply:
        raise (UserError if reply["kind"] == "user" else InfraError)(reply["error"])
    return reply["result"]
