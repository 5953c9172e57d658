"""Allocates memory up to three gigabytes."""

held = []
for _ in range(48):
    held.append(bytearray(b"x") * (1 << 26))
