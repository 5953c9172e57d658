"""Creates nested folders, deeper than a path or a recursion allows."""

import os

for _ in range(1200):
    os.mkdir("deeper-and-deeper")
    os.chdir("deeper-and-deeper")
