"""Sends data over the network."""

import socket

from hostile_tools import harm, port


def send(family, kind, address):
    with socket.socket(family, kind) as line:
        line.settimeout(1)
        line.connect(address)
        line.send(b"hello")


sent = []
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port())),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port())),
    (socket.AF_UNIX, socket.SOCK_STREAM, f"\0hostile-{port()}"),
):
    try:
        send(family, kind, address)
    except OSError:
        continue
    sent.append(f"{family.name} {kind.name}")
if sent:
    harm(f"data was sent over {', '.join(sent)}")
