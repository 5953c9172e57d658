"""Installs the TPU compiler on Linux machines that are not x86-64: `python -m evokernel.backends.pallas.install`.

libtpu exists for x86-64 only. For other machines this command downloads its library from the package index of pip, and box64, an
emulator that runs it, from the machine's Debian archive. It unpacks both under the cache folder and changes nothing else; it does not
need root.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from evokernel.backends.pallas import chips, compiler, compiler_process, emulator, libtpu
from evokernel.core.errors import InfraError, UserError

log = logging.getLogger(__name__)
WHEEL_OPTIONS = ("--platform", "manylinux_2_31_x86_64", "--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--no-cache-dir")
PACKAGES = ("box64", "libc6", "libgcc-s1")
DEBIAN_SUITE = "testing"
"""The oldest Debian suite whose box64 runs libtpu."""
ARCHITECTURES = {"aarch64": "arm64", "riscv64": "riscv64", "loongarch64": "loong64"}
APT_FOLDER = Path("/etc/apt")
MANUAL_INSTALL = f"install box64 {'.'.join(map(str, emulator.MIN_VERSION))} or newer and put it on the path"


def main() -> int:
    """Returns exit code 0 if the compiler can run afterwards, else 2 after a message with the fix."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if sys.platform == "linux" and not libtpu.is_native():
            install_missing()
        if reason := compiler.unavailable_reason():
            raise UserError(reason)
        prepare_compiler()
    except (UserError, InfraError, OSError) as error:
        log.error("the TPU compiler is not ready: %s", error)
        return 2
    log.info("the TPU compiler is ready: %s", ", ".join(f"{name} {version}" for name, version in compiler.toolchain_versions().items()))
    return 0


def install_missing() -> None:
    """Installs box64 and libtpu if they are missing."""
    runner = emulator.find_emulator()
    if runner is None or not runner.caches_translations:
        install_box64()
    if libtpu.find_library() is None:
        install_libtpu()


def install_libtpu() -> None:
    """Downloads the wheel and extracts the library into the tools folder."""
    log.info("downloading libtpu %s (about 200 MB) ...", libtpu.VERSION)
    target = libtpu.downloaded_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        result = run_command([sys.executable, "-m", "pip", "download", "-q", "-d", work, *WHEEL_OPTIONS, f"libtpu=={libtpu.VERSION}"])
        wheels = sorted(Path(work).glob("libtpu-*.whl"))
        if result.returncode or not wheels:
            raise InfraError(f"pip cannot download libtpu: {last_line(result.stderr)}")
        log.info("unpacking libtpu (about 600 MB) ...")
        library = Path(work) / "libtpu.so"
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open("libtpu/libtpu.so") as source, library.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        library.replace(target)


def install_box64() -> None:
    """Downloads box64 with the C library it was built with, and extracts both into the tools folder."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UserError(f"{MANUAL_INSTALL}: the automatic download requires apt-get and dpkg-deb, which are not installed")
    architecture = ARCHITECTURES.get(platform.machine())
    lines = list(debian_sources(APT_FOLDER))
    if architecture is None or not lines:
        raise UserError(f"{MANUAL_INSTALL}: {APT_FOLDER} lists no Debian archive for {platform.machine()}")
    log.info("downloading %s from Debian %s ...", ", ".join(PACKAGES), DEBIAN_SUITE)
    home = emulator.box64_folder()
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as work:
        download_packages(Path(work), architecture, lines)
        folder = Path(work) / "unpacked"
        for package in sorted(Path(work).glob("*.deb")):
            result = run_command(["dpkg-deb", "-x", str(package), str(folder)])
            if result.returncode:
                raise InfraError(f"cannot unpack {package.name}: {last_line(result.stderr)}")
        shutil.rmtree(home, ignore_errors=True)
        folder.rename(home)
    emulator.box64_version.cache_clear()
    if emulator.box64_version(tuple(emulator.box64_command())) < emulator.MIN_VERSION:
        raise UserError(f"{MANUAL_INSTALL}: the box64 of Debian {DEBIAN_SUITE} does not run on this machine or is too old")


def download_packages(work: Path, architecture: str, lines: Sequence[str]) -> None:
    """Downloads the packages with an apt-get that reads one suite only and writes only into `work`."""
    (work / "sources.list").write_text("\n".join(lines) + "\n")
    (work / "status").touch()
    for name in ("state/lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    settings = {
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferencesparts": "-",
        "APT::Architecture": architecture,
        "APT::Sandbox::User": "root",  # the default user may not write into this folder
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
    }
    apt = ["apt-get", "-qq", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]
    for arguments in (["update"], ["download", *PACKAGES]):
        result = run_command([*apt, *arguments], work)
        if result.returncode:
            raise InfraError(f"apt-get {arguments[0]} failed: {last_line(result.stderr)}. Fix this, or {MANUAL_INSTALL}.")


def debian_sources(folder: Path) -> Iterator[str]:
    """The machine's Debian archives as lines of sources.list, with our suite instead of the configured one."""
    yielded_uris = set()
    for uri, keys in [*parse_list_files(folder), *parse_deb822_files(folder)]:
        name = uri.rstrip("/").rsplit("/", 1)[-1]
        if name == "debian" and uri not in yielded_uris:
            yielded_uris.add(uri)
            yield f"deb {f'[signed-by={keys}] ' if keys else ''}{uri} {DEBIAN_SUITE} main"


def parse_list_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Archive addresses and keyrings in files of the one-line format: `deb [options] address suite components`."""
    for path in [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))]:
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
            words = line.split("#")[0].replace("[", " [ ").replace("]", " ] ").split()
            if words[:1] != ["deb"]:
                continue
            options = words[words.index("[") + 1 : words.index("]")] if "]" in words else []
            rest = words[words.index("]") + 1 :] if "]" in words else words[1:]
            keys = [option.partition("=")[2] for option in options if option.startswith("signed-by=")]
            if rest:
                yield rest[0], "".join(keys[:1])


def parse_deb822_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Archive addresses and keyrings in files of the deb822 format: paragraphs of `Key: value`."""
    for path in sorted(folder.glob("sources.list.d/*.sources")):
        for paragraph in path.read_text(errors="replace").split("\n\n"):
            fields = dict(line.split(":", 1) for line in paragraph.splitlines() if ":" in line and not line.startswith(("#", " ")))
            values = {name.strip().lower(): value.strip() for name, value in fields.items()}
            keys = values.get("signed-by", "")
            if "deb" in values.get("types", "").split() and values.get("enabled", "yes") != "no":
                yield from ((uri, keys if keys.startswith("/") else "") for uri in values.get("uris", "").split())


def prepare_compiler() -> None:
    """Builds the compiler process and runs it once, so that the first kernel does not wait for that."""
    compiler_process.build_executable()
    compiler.base_options()
    runner = emulator.find_emulator()
    if runner and runner.caches_translations and not compiler_process.TranslationCache.folder_for(runner.version).is_dir():
        log.info("starting the TPU compiler for the first time ...")
        os.environ["JAX_PLATFORMS"] = "cpu"
        from evokernel.backends.pallas.warm_up import lower_warm_up_programs

        chip = chips.get_chip("v5e")
        with tempfile.TemporaryDirectory() as folder:
            for program in lower_warm_up_programs(chip):
                compiler.compile_program(program, chip.topology, Path(folder))
        compiler.shut_down()


def run_command(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs an external program with English messages."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise InfraError(f"cannot start {command[0]}: {error}") from error


def last_line(text: str) -> str:
    """The last line of a program's error output."""
    return (text.strip().splitlines() or ["no error message"])[-1]


if __name__ == "__main__":
    sys.exit(main())
