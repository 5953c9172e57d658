"""What an installed package needs is in it: prompts, cards, templates, samples, lists."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "evokernel"
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["evokernel"]


def test_every_file_is_packaged():
    left_out = []
    for path in sorted(p for p in SRC.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        name = str(path.relative_to(SRC))
        if path.suffix == ".py" and (path.parent / "__init__.py").exists():
            continue
        if not any(fnmatch(name, pattern.replace("**/", "*")) for pattern in PATTERNS):
            left_out.append(name)
    assert left_out == [], "add a pattern to package-data in pyproject.toml"


def test_versions_agree():
    import evokernel

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == evokernel.__version__


def test_every_dependency_has_its_version_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {one.split(">")[0].split("=")[0].strip().lower().replace("_", "-") for one in wanted}
    pinned = {line.split("==")[0].strip().lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names - pinned == set()
