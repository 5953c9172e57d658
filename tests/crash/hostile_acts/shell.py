"""Starts a background process through a shell."""

import subprocess

subprocess.run(["sh", "-c", "setsid sleep 20 >/dev/null 2>&1 &"], check=True)
