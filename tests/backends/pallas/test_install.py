"""What is said when a part of the compiler is missing, and how it is fetched: with the machine's own pip and apt, into one folder."""

import logging
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from evokernel.backends.pallas import compiler, driver, emulator, install, libtpu
from evokernel.core import paths
from evokernel.core.errors import InfraError, UserError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of another kind, with no tools, an empty path, and nothing fetched yet."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path / "tools"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(libtpu.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(emulator, "SYSROOT", tmp_path / "sysroot")
    monkeypatch.setattr(compiler, "PACKAGES", ())
    emulator.box64_version.cache_clear()
    yield tmp_path
    emulator.box64_version.cache_clear()


def tool(machine: Path, name: str, script: str, folder: str = "bin") -> Path:
    """A program that does what the script says."""
    path = machine / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def box64(version: str) -> str:
    return f"echo 'Box64 arm64 v{version} nogit with Dynarec'"


def fetched(machine: Path) -> None:
    """As if the library had been fetched."""
    libtpu.private().parent.mkdir(parents=True)
    libtpu.private().write_text("a library")


def test_every_missing_part_is_named_with_its_fix(machine, monkeypatch):
    assert compiler.missing() == f"libtpu {libtpu.VERSION} is not installed: {libtpu.INSTALL}"
    fetched(machine)
    assert "no emulator" in compiler.missing()
    assert compiler.missing().endswith(libtpu.INSTALL)
    tool(machine, "box64", box64("0.4.3"))
    monkeypatch.setattr(driver.importlib.util, "find_spec", lambda name: None)
    assert compiler.missing() == "no C compiler for x86-64 programs: pip install 'evokernel[pallas]'"
    tool(machine, "x86_64-linux-gnu-gcc", "")
    assert compiler.missing() is None
    monkeypatch.setattr(compiler, "PACKAGES", ("jax", "no-such-package"))
    assert compiler.missing() == "no-such-package is not installed: pip install 'evokernel[pallas]'"
    with pytest.raises(InfraError, match="no-such-package is not installed"):
        compiler.compile_program(b"", "v5e:1x1", machine)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Linux only" in compiler.missing()


def test_where_libtpu_was_made_for_nothing_is_fetched(machine, monkeypatch, caplog):
    monkeypatch.setattr(libtpu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(libtpu.util, "find_spec", lambda name: None)
    assert emulator.find() is emulator.NATIVE
    assert compiler.missing() == f"libtpu {libtpu.VERSION} is not installed: pip install 'evokernel[pallas]'"
    assert install.main() == 2
    assert not (machine / "tools").exists()


@pytest.mark.parametrize(("version", "fits"), [(libtpu.VERSION, True), ("0.0.1", False)])
def test_the_package_is_taken_if_it_is_the_pinned_one(machine, monkeypatch, version, fits):
    monkeypatch.setattr(libtpu.platform, "machine", lambda: "x86_64")
    for name, text in (
        ("libtpu/__init__.py", ""),
        ("libtpu/libtpu.so", ""),
        (f"libtpu-{version}.dist-info/METADATA", f"Version: {version}\n"),
    ):
        (machine / name).parent.mkdir(exist_ok=True)
        (machine / name).write_text(f"Name: libtpu\n{text}" if text else "")
    monkeypatch.syspath_prepend(machine)
    assert libtpu.find() == (machine / "libtpu" / "libtpu.so" if fits else None)


def test_an_emulator_must_be_new_enough(machine):
    tool(machine, "box64", box64("0.3.4"))
    assert emulator.find() is None
    tool(machine, "usr/bin/box64", box64("0.4.4"), folder="tools/box64")
    found = emulator.find()
    assert (found.name, found.version, found.lacks_access) == ("box64", "0.4.4", False)
    emulator.box64_version.cache_clear()
    tool(machine, "box64", box64("0.4.3"))
    found = emulator.find()
    assert (found.command, found.lacks_access) == ((str(machine / "bin" / "box64"),), True)
    tool(machine, "box64", "exit 1")
    emulator.box64_version.cache_clear()
    assert emulator.find().version == "0.4.4"


def test_qemu_is_taken_last_and_with_a_word(machine):
    tool(machine, "qemu-x86_64", "")
    assert emulator.find() is None, "it needs a C library, too"
    (machine / "sysroot").mkdir()
    found = emulator.find()
    assert found.command == (str(machine / "bin" / "qemu-x86_64"), "-L", str(machine / "sysroot"))
    assert "slower" in found.note
    tool(machine, "box64", box64("0.4.3"))
    assert emulator.find().name == "box64"


def test_our_own_copy_runs_with_its_own_c_library(machine):
    assert emulator.private() == []
    program = tool(machine, "usr/bin/box64", box64("0.4.3"), folder="tools/box64")
    loader = tool(machine, "usr/lib/some-linux-gnu/ld-linux-some.so.1", "", folder="tools/box64")
    assert emulator.private() == [str(loader), "--library-path", str(loader.parent), str(program)]


def test_sources_of_both_kinds_with_our_suite(tmp_path):
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://no/debian old main\n"
        "deb [arch=arm64 signed-by=/keys/one.gpg] http://one/debian bookworm main contrib\n"
        "deb http://one/debian-security bookworm-security main\ndeb-src http://source/debian bookworm main\n"
    )
    (parts / "a.sources").write_text(
        "Types: deb deb-src\nURIs: https://two/debian/ http://one/debian\nSuites: bookworm bookworm-updates\n"
        "Components: main\nSigned-By: /keys/two.gpg\n\nTypes: deb\nURIs: http://two/debian-security\nSuites: s\n\n"
        "Types: deb\nEnabled: no\nURIs: http://off/debian\nSuites: s\n"
    )
    (parts / "b.list").write_text("deb http://three/debian bookworm main\ndeb http://other/tool stable main\n")
    assert list(install.sources(tmp_path)) == [
        "deb [signed-by=/keys/one.gpg] http://one/debian testing main",
        "deb http://three/debian testing main",
        "deb [signed-by=/keys/two.gpg] https://two/debian/ testing main",
    ]
    assert list(install.sources(tmp_path / "nowhere")) == []


def with_apt(machine: Path, monkeypatch, apt: str) -> None:
    """A Debian machine whose apt does what the script says."""
    monkeypatch.setenv("PATH", f"{machine / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(install, "SOURCES", machine / "etc")
    (machine / "etc").mkdir()
    (machine / "etc" / "sources.list").write_text("deb http://archive/debian bookworm main\n")
    tool(machine, "apt-get", apt)
    tool(machine, "dpkg-deb", 'mkdir -p "$3/usr/bin" && cp "$2" "$3/usr/bin/$(basename "$2" .deb)"')


def test_box64_is_fetched_with_a_private_apt(machine, monkeypatch):
    record = machine / "record"
    with_apt(
        machine,
        monkeypatch,
        f'echo "$@" >> {record}\ncase "$*" in\n  *update) cp sources.list {machine}/sources ;;\n'
        f"  *) for one in box64 libc6 libgcc-s1; do cp {machine}/payload $one.deb; done ;;\nesac",
    )
    tool(machine, "payload", box64("0.4.3"), folder="")
    install.install_box64()
    assert emulator.find().command == (str(machine / "tools" / "box64" / "usr" / "bin" / "box64"),)
    update, download = record.read_text().splitlines()
    assert update.endswith(" update")
    assert download.endswith(" download box64 libc6 libgcc-s1")
    assert (machine / "sources").read_text() == "deb http://archive/debian testing main\n"
    for line in (update, download):
        for setting in ("Dir::State", "Dir::State::status", "Dir::Cache", "Dir::Etc::sourcelist"):
            assert f" {setting}={machine / 'tools'}/" in line, "nothing of the system is touched"
    assert [path.name for path in (machine / "tools").iterdir()] == ["box64"]


def test_box64_that_cannot_be_fetched(machine, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger="evokernel"):
        assert install.main() == 2
    assert "install box64 0.4.3 or newer" in caplog.messages[-1]
    with_apt(machine, monkeypatch, "echo noise >&2; echo 'E: The repository is not signed.' >&2; exit 100")
    with pytest.raises(InfraError, match=r"apt-get update: E: The repository is not signed\.; or install box64"):
        install.install_box64()
    tool(machine, "apt-get", 'case "$*" in *update) ;; *) cp ../../payload box64.deb ;; esac')
    tool(machine, "payload", box64("0.4.0"), folder="")
    with pytest.raises(UserError, match="too old"):
        install.install_box64()
    (machine / "etc" / "sources.list").write_text("deb http://archive/other bookworm main\n")
    with pytest.raises(UserError, match="no Debian archive"):
        install.install_box64()


def wheel(folder: Path) -> None:
    """A package like libtpu's, only smaller."""
    folder.mkdir()
    info = f"libtpu-{libtpu.VERSION}.dist-info"
    with zipfile.ZipFile(folder / f"libtpu-{libtpu.VERSION}-cp311-cp311-manylinux_2_31_x86_64.whl", "w") as file:
        file.writestr("libtpu/libtpu.so", b"the library")
        file.writestr("libtpu/__init__.py", "")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: libtpu\nVersion: {libtpu.VERSION}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_31_x86_64\n")
        file.writestr(f"{info}/RECORD", "")


def test_libtpu_is_taken_out_of_its_wheel(machine, monkeypatch):
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(machine / "wheels"))
    wheel(machine / "wheels")
    install.install_libtpu()
    assert libtpu.find() == libtpu.private()
    assert libtpu.private().read_bytes() == b"the library"
    assert [path.name for path in libtpu.private().parent.iterdir()] == ["libtpu.so"]
    libtpu.private().unlink()
    shutil.rmtree(machine / "wheels")
    with pytest.raises(InfraError, match=r"pip cannot download libtpu: .*No matching distribution"):
        install.install_libtpu()
    assert list(libtpu.private().parent.iterdir()) == []


@pytest.mark.skipif(compiler.missing() is not None, reason=compiler.missing() or "")
def test_a_second_time_there_is_nothing_to_do(monkeypatch, caplog):
    for name in ("install_box64", "install_libtpu"):
        monkeypatch.setattr(install, name, lambda: pytest.fail("it is there already"))
    with caplog.at_level(logging.INFO, logger="evokernel"):
        assert install.main() == 0
    assert caplog.messages[-1].startswith("the TPU compiler is ready: jax ")


def test_versions_are_the_pinned_ones():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["pallas"]
    pins = dict(one.split(";")[0].split("==") for one in extra)
    assert pins["libtpu"] == libtpu.VERSION
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert [one for one in extra if one not in constraints] == []


def test_where_tools_are_kept(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_TOOLS", "~/tools")
    assert paths.tools_folder() == Path.home() / "tools"
    monkeypatch.delenv("EVOKERNEL_TOOLS")
    monkeypatch.setenv("EVOKERNEL_CACHE", "/a")
    assert paths.tools_folder() == Path("/a/tools")


def test_a_driver_that_does_not_compile(machine, monkeypatch):
    tool(machine, "x86_64-linux-gnu-gcc", "echo 'driver.c:1: error: no headers' >&2; exit 1")
    with pytest.raises(InfraError, match=r"cannot compile the driver: .*no headers"):
        driver.build()
    assert list((machine / "tools").iterdir()) == []
