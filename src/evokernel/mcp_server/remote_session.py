"""Passes the calls of an agent on to the run that started it, over a Unix socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evokernel.core.agent_socket import Connection, read_connection, send_call
from evokernel.core.agent_tools import RESULT_TYPES
from evokernel.core.records import Record


class RemoteSession:
    """`folder` is the session's folder, which the run made; it names the socket and the token."""

    def __init__(self, folder: Path) -> None:
        self.connection: Connection = read_connection(folder)

    def call(self, tool: str, arguments: dict[str, Any]) -> Record:
        """Let the run answer one call. Raises UserError or InfraError as the session in the run does."""
        return RESULT_TYPES[tool].model_validate(send_call(self.connection, tool, arguments))
