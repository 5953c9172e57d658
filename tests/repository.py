"""What git knows about this checkout."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def current_commit() -> str:
    """Return the commit that is checked out, or a fixed text outside a repository."""
    try:
        found = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return "no-commit"
    return found.stdout.strip() or "no-commit"


def list_tracked_files(pattern: str) -> list[Path]:
    """Return the existing files of the repository that match a pattern."""
    listing = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]
