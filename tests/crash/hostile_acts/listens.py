"""Opens a port and waits for connections."""

import socket

from hostile_tools import harm

with socket.socket() as line:
    try:
        line.bind(("127.0.0.1", 0))
        line.listen()
    except OSError:
        pass
    else:
        harm("someone could call")
