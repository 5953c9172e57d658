"""Messages about missing parts of the compiler, and their installation with pip and apt into one folder."""

import logging
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from evokernel.backends.pallas import compiler, compiler_process, emulator, install, libtpu
from evokernel.core import paths
from evokernel.core.errors import InfraError, UserError

pytestmark = pytest.mark.toolchain

ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that is not x86-64, without tools, with an empty path, before any download."""
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
    """Installs a shell script as a program."""
    path = machine / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def box64(version: str) -> str:
    return f"echo 'Box64 arm64 v{version} nogit with Dynarec'"


def create_library(machine: Path) -> None:
    """Creates the file that the download of libtpu would create."""
    libtpu.downloaded_path().parent.mkdir(parents=True)
    libtpu.downloaded_path().write_text("a library")


def test_every_missing_part_is_named_with_its_fix(machine, monkeypatch):
    assert compiler.unavailable_reason() == f"libtpu {libtpu.VERSION} is not installed: {libtpu.INSTALL_COMMAND}"
    create_library(machine)
    assert "none is installed" in compiler.unavailable_reason()
    assert compiler.unavailable_reason().endswith(libtpu.INSTALL_COMMAND)
    tool(machine, "box64", box64("0.4.3"))
    monkeypatch.setattr(compiler_process.importlib.util, "find_spec", lambda name: None)
    assert compiler.unavailable_reason() == "no C compiler for x86-64 programs is installed: pip install 'evokernel[pallas]'"
    tool(machine, "x86_64-linux-gnu-gcc", "")
    assert compiler.unavailable_reason() is None
    monkeypatch.setattr(compiler, "PACKAGES", ("jax", "no-such-package"))
    assert compiler.unavailable_reason() == "no-such-package is not installed: pip install 'evokernel[pallas]'"
    with pytest.raises(InfraError, match="no-such-package is not installed"):
        compiler.compile_program(b"", "v5e:1x1", machine)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "requires Linux" in compiler.unavailable_reason()


def test_x86_64_machine_downloads_nothing(machine, monkeypatch, caplog):
    monkeypatch.setattr(libtpu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(libtpu.util, "find_spec", lambda name: None)
    assert emulator.find_emulator() is emulator.NATIVE
    assert compiler.unavailable_reason() == f"libtpu {libtpu.VERSION} is not installed: pip install 'evokernel[pallas]'"
    assert install.main() == 2
    assert not (machine / "tools").exists()


@pytest.mark.parametrize(("version", "fits"), [(libtpu.VERSION, True), ("0.0.1", False)])
def test_installed_package_is_used_only_in_the_pinned_version(machine, monkeypatch, version, fits):
    monkeypatch.setattr(libtpu.platform, "machine", lambda: "x86_64")
    for name, text in (
        ("libtpu/__init__.py", ""),
        ("libtpu/libtpu.so", ""),
        (f"libtpu-{version}.dist-info/METADATA", f"Version: {version}\n"),
    ):
        (machine / name).parent.mkdir(exist_ok=True)
        (machine / name).write_text(f"Name: libtpu\n{text}" if text else "")
    monkeypatch.syspath_prepend(machine)
    monkeypatch.delitem(sys.modules, "libtpu", raising=False)
    assert libtpu.find_library() == (machine / "libtpu" / "libtpu.so" if fits else None)


def test_emulator_must_be_new_enough(machine):
    tool(machine, "box64", box64("0.3.4"))
    assert emulator.find_emulator() is None
    tool(machine, "usr/bin/box64", box64("0.4.4"), folder="tools/box64")
    result = emulator.find_emulator()
    assert (result.name, result.version, result.lacks_faccessat) == ("box64", "0.4.4", False)
    emulator.box64_version.cache_clear()
    tool(machine, "box64", box64("0.4.3"))
    result = emulator.find_emulator()
    assert (result.command, result.lacks_faccessat) == ((str(machine / "bin" / "box64"),), True)
    tool(machine, "box64", "exit 1")
    emulator.box64_version.cache_clear()
    assert emulator.find_emulator().version == "0.4.4"


def test_qemu_is_the_last_choice_and_has_a_note(machine):
    tool(machine, "qemu-x86_64", "")
    assert emulator.find_emulator() is None, "qemu also needs a C library"
    (machine / "sysroot").mkdir()
    result = emulator.find_emulator()
    assert result.command == (str(machine / "bin" / "qemu-x86_64"), "-L", str(machine / "sysroot"))
    assert "slower" in result.note
    tool(machine, "box64", box64("0.4.3"))
    assert emulator.find_emulator().name == "box64"


def test_downloaded_box64_runs_with_its_c_library(machine):
    assert emulator.box64_command() == []
    program = tool(machine, "usr/bin/box64", box64("0.4.3"), folder="tools/box64")
    loader = tool(machine, "usr/lib/some-linux-gnu/ld-linux-some.so.1", "", folder="tools/box64")
    assert emulator.box64_command() == [str(loader), "--library-path", str(loader.parent), str(program)]


def test_apt_sources_of_both_formats_use_our_suite(tmp_path):
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
    assert list(install.debian_sources(tmp_path)) == [
        "deb [signed-by=/keys/one.gpg] http://one/debian testing main",
        "deb http://three/debian testing main",
        "deb [signed-by=/keys/two.gpg] https://two/debian/ testing main",
    ]
    assert list(install.debian_sources(tmp_path / "nowhere")) == []


def make_debian(machine: Path, monkeypatch, apt: str) -> None:
    """Turns the machine into a Debian machine whose apt-get is the script."""
    monkeypatch.setenv("PATH", f"{machine / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(install, "APT_FOLDER", machine / "etc")
    (machine / "etc").mkdir()
    (machine / "etc" / "sources.list").write_text("deb http://archive/debian bookworm main\n")
    tool(machine, "apt-get", apt)
    tool(machine, "dpkg-deb", 'mkdir -p "$3/usr/bin" && cp "$2" "$3/usr/bin/$(basename "$2" .deb)"')


def test_box64_is_downloaded_with_isolated_apt_settings(machine, monkeypatch):
    record = machine / "record"
    make_debian(
        machine,
        monkeypatch,
        f'echo "$@" >> {record}\ncase "$*" in\n  *update) cp sources.list {machine}/sources ;;\n'
        f"  *) for one in box64 libc6 libgcc-s1; do cp {machine}/payload $one.deb; done ;;\nesac",
    )
    tool(machine, "payload", box64("0.4.3"), folder="")
    install.install_box64()
    assert emulator.find_emulator().command == (str(machine / "tools" / "box64" / "usr" / "bin" / "box64"),)
    update, download = record.read_text().splitlines()
    assert update.endswith(" update")
    assert download.endswith(" download box64 libc6 libgcc-s1")
    assert (machine / "sources").read_text() == "deb http://archive/debian testing main\n"
    for line in (update, download):
        for setting in ("Dir::State", "Dir::State::status", "Dir::Cache", "Dir::Etc::sourcelist"):
            assert f" {setting}={machine / 'tools'}/" in line, "apt writes only below the tools folder"
    assert [path.name for path in (machine / "tools").iterdir()] == ["box64"]


def test_failed_download_of_box64_names_the_fix(machine, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger="evokernel"):
        assert install.main() == 2
    assert "install box64 0.4.3 or newer" in caplog.messages[-1]
    make_debian(machine, monkeypatch, "echo noise >&2; echo 'E: The repository is not signed.' >&2; exit 100")
    with pytest.raises(InfraError, match=r"apt-get update failed: E: The repository is not signed\.. Fix this, or install box64"):
        install.install_box64()
    tool(machine, "apt-get", 'case "$*" in *update) ;; *) cp ../../payload box64.deb ;; esac')
    tool(machine, "payload", box64("0.4.0"), folder="")
    with pytest.raises(UserError, match="too old"):
        install.install_box64()
    (machine / "etc" / "sources.list").write_text("deb http://archive/other bookworm main\n")
    with pytest.raises(UserError, match="lists no Debian archive"):
        install.install_box64()


def create_wheel(folder: Path) -> None:
    """Creates a small wheel with the structure of libtpu's."""
    folder.mkdir()
    info = f"libtpu-{libtpu.VERSION}.dist-info"
    with zipfile.ZipFile(folder / f"libtpu-{libtpu.VERSION}-cp311-cp311-manylinux_2_31_x86_64.whl", "w") as file:
        file.writestr("libtpu/libtpu.so", b"the library")
        file.writestr("libtpu/__init__.py", "")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: libtpu\nVersion: {libtpu.VERSION}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_31_x86_64\n")
        file.writestr(f"{info}/RECORD", "")


def test_libtpu_is_extracted_from_its_wheel(machine, monkeypatch):
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(machine / "wheels"))
    create_wheel(machine / "wheels")
    install.install_libtpu()
    assert libtpu.find_library() == libtpu.downloaded_path()
    assert libtpu.downloaded_path().read_bytes() == b"the library"
    assert [path.name for path in libtpu.downloaded_path().parent.iterdir()] == ["libtpu.so"]
    libtpu.downloaded_path().unlink()
    shutil.rmtree(machine / "wheels")
    with pytest.raises(InfraError, match=r"pip cannot download libtpu: .*No matching distribution"):
        install.install_libtpu()
    assert list(libtpu.downloaded_path().parent.iterdir()) == []


@pytest.mark.skipif(compiler.unavailable_reason() is not None, reason=compiler.unavailable_reason() or "")
def test_second_installation_does_nothing(monkeypatch, caplog):
    for name in ("install_box64", "install_libtpu"):
        monkeypatch.setattr(install, name, lambda: pytest.fail("it is already installed"))
    with caplog.at_level(logging.INFO, logger="evokernel"):
        assert install.main() == 0
    assert caplog.messages[-1].startswith("the TPU compiler is ready: jax ")


def test_versions_match_pyproject_and_constraints():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["pallas"]
    pins = dict(one.split(";")[0].split("==") for one in extra)
    assert pins["libtpu"] == libtpu.VERSION
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert [one for one in extra if one not in constraints] == []


def test_tools_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_TOOLS", "~/tools")
    assert paths.tools_folder() == Path.home() / "tools"
    monkeypatch.delenv("EVOKERNEL_TOOLS")
    monkeypatch.setenv("EVOKERNEL_CACHE", "/a")
    assert paths.tools_folder() == Path("/a/tools")


def test_failed_build_of_the_compiler_process_is_reported(machine, monkeypatch):
    tool(machine, "x86_64-linux-gnu-gcc", "echo 'compiler_process.c:1: error: no headers' >&2; exit 1")
    with pytest.raises(InfraError, match=r"cannot build compiler_process.c: .*no headers"):
        compiler_process.build_executable()
    assert list((machine / "tools").iterdir()) == []
