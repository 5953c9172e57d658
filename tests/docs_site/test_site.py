"""Builds the documentation site strictly, without a network, and checks what it contains."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evokernel
from evokernel.cli.main import COMMANDS
from evokernel.core.config import RunConfig

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
LOADED = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?([^\"'\s>]+)|<link[^>]*\shref=[\"']?([^\"'\s>]+)|url\([\"']?([^)\"']+)")
"""What a page or a style sheet loads: scripts, images, styles, fonts."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    proxies = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # nothing listens there
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **proxies, "NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stderr[-4000:]
    return folder


def test_every_page_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page.name
    home = (site / "index.html").read_text()
    assert all(f">{part}<" in re.sub(r"\s+", "", home) for part in ("Tutorial", "How-toguides", "Reference", "Explanation"))
    assert "Where to go next" in home
    for name in ("contributing", "changelog", "benchmarks", "results"):
        assert (site / "project" / f"{name}.html").is_file()


def test_reference_has_every_public_name_with_its_text(site):
    for module, names in evokernel.MODULES.items():
        page = (site / "reference" / "python" / f"{module}.html").read_text()
        assert [name for name in names if not re.search(rf'id="evokernel[\w.]+\.{name}"', page)] == []
    runs = (site / "reference" / "python" / "runs.html").read_text()
    assert "Attempts per task; 10 by default" in runs
    assert 'id="evokernel.api.runs.Run.best"' in runs


def test_reference_has_every_command_and_setting(site):
    commands = (site / "reference" / "commands.html").read_text()
    assert [name for name in COMMANDS if f'id="evokernel-{name}"' not in commands] == []
    assert 'id="evokernel-memory-search"' in commands
    assert "--task SPEC" in commands
    settings = (site / "reference" / "settings.html").read_text()
    assert [name for name in RunConfig.model_fields if f"<code>{name}</code>" not in settings] == []
    assert 'id="policy-value"' in settings
    assert "\\|" not in re.sub(r"<code>.*?</code>", "", commands + settings, flags=re.DOTALL)


def test_decisions_are_listed(site):
    page = (site / "adr" / "index.html").read_text()
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [record.name for record in records if f'href="{record.stem}.html"' not in page] == []


def test_pages_load_nothing_from_other_servers(site):
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    targets = {target for file in files for groups in LOADED.findall(file.read_text()) for target in groups if target}
    assert {target for target in targets if re.match(r"(?:https?:)?//", target)} == set()
    assert any(target.endswith(".css") for target in targets)


def test_links_to_files_outside_the_site_become_text():
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "docs_site" / "links.py")
    links = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(links)
    pages = {"benchmarks/README.md": "project/benchmarks.md", "docs/trust.md": "trust.md"}
    text = "[a](../benchmarks/README.md#b) [c](../dev) [d](nowhere.md) [e](https://x.org) `[f](trust.md)` [`g`](trust.md)"
    expected = "[a](project/benchmarks.md#b) c [d](nowhere.md) [e](https://x.org) `[f](trust.md)` [`g`](trust.md)"
    assert links.rewrite_links(text, "docs/page.md", "page.md", pages, ROOT) == expected
    assert links.rewrite_links("[h](docs/trust.md)", "README.md", "project/x.md", pages, ROOT) == "[h](../trust.md)"
