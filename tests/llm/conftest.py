"""Fixture: a package index for the tests."""

import pytest
from package_index import PackageIndex


@pytest.fixture
def only_index(tmp_path, monkeypatch):
    """The only index that pip uses; downloads and builds go to a temporary folder."""
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path / "tools"))
    with PackageIndex() as index:
        settings = {"INDEX_URL": index.url, "EXTRA_INDEX_URL": "", "FIND_LINKS": "", "CONFIG_FILE": "/dev/null", "DEFAULT_TIMEOUT": "120"}
        for name, value in settings.items():
            monkeypatch.setenv(f"PIP_{name}", value)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield index
