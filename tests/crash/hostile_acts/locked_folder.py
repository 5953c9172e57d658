"""Creates a folder that cannot be entered, to prevent its removal."""

import os

for depth in ("locked", "locked/in", "locked/in/here"):
    os.mkdir(depth)
open("locked/in/here/file", "w").close()
for depth in ("locked/in/here", "locked/in", "locked", "."):
    os.chmod(depth, 0)
