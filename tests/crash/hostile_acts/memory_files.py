"""Creates files in memory, which count against no quota."""

import os

held = []
for number in range(200):
    held.append(os.memfd_create(f"hostile-{number}"))
    os.write(held[-1], b"x" * (1 << 20))
