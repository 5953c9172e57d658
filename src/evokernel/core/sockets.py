"""Sockets that servers of this package listen on."""

from __future__ import annotations

import socket

from evokernel.core.errors import UserError


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises UserError if the address is not available."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(kind, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)  # early requests wait until the server is ready
    except OSError as error:
        raise UserError(f"cannot listen on {host} port {port}: {error.strerror or error}. Choose another with --host or --port.") from error
    return listener
