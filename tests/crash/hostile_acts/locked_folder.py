"""A folder that cannot be entered cannot be removed by whoever gives up."""

import os

for depth in ("locked", "locked/in", "locked/in/here"):
    os.mkdir(depth)
open("locked/in/here/file", "w").close()
for depth in ("locked/in/here", "locked/in", "locked", "."):
    os.chmod(depth, 0)
