"""Creates names that are not text, that are commands, or that are longer than a line."""

import os

for name in (b"\xff\xfe", "ünïcödé-\u202e", "-rf", "new\nline", "\x1b[2J", "a" * 255, "$(touch hostile)", "*"):
    os.mkdir(name)
    open(os.path.join(name, name), "wb").close()
