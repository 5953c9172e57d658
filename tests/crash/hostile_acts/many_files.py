"""Writes 300 MB in files that are each small enough."""

for number in range(600):
    with open(f"part-{number}", "wb", buffering=0) as file:
        file.write(b"x" * (1 << 19))
