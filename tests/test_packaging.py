"""The installed package contains everything it needs: prompts, cards, templates, samples, lists."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "evokernel"
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["evokernel"]


def test_every_file_is_packaged():
    missing_files = []
    for path in sorted(p for p in SRC.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        name = str(path.relative_to(SRC))
        if path.suffix == ".py" and (path.parent / "__init__.py").exists():
            continue
        if not any(fnmatch(name, pattern.replace("**/", "*")) for pattern in PATTERNS):
            missing_files.append(name)
    assert missing_files == [], "add a pattern to package-data in pyproject.toml"


def test_versions_agree():
    import evokernel

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == evokernel.__version__


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {one.split(">")[0].split("=")[0].split("[")[0].strip().lower().replace("_", "-") for one in requirements}
    pinned_names = {line.split("==")[0].strip().lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names - pinned_names == set()
