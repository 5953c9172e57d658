"""Writes 300 MB to one file."""

with open("huge", "wb", buffering=0) as file:
    for _ in range(300):
        file.write(b"x" * (1 << 20))
