"""Fetches what the TPU compiler needs on Linux machines it was not made for: `python -m evokernel.backends.pallas.install`.

libtpu exists for x86-64 only. Elsewhere its library comes from pip's own index, and box64, which runs it, from the machine's own
Debian archive. Both are unpacked under the cache folder; nothing outside it is touched, and root is not needed.
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

from evokernel.backends.pallas import chips, compiler, driver, emulator, libtpu
from evokernel.core.errors import InfraError, UserError

log = logging.getLogger(__name__)
WHEEL = ("--platform", "manylinux_2_31_x86_64", "--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--no-cache-dir")
PACKAGES = ("box64", "libc6", "libgcc-s1")
SUITE = "testing"
"""The oldest suite of Debian whose box64 runs libtpu."""
ARCHITECTURES = {"aarch64": "arm64", "riscv64": "riscv64", "loongarch64": "loong64"}
SOURCES = Path("/etc/apt")
BY_HAND = f"install box64 {'.'.join(map(str, emulator.OLDEST))} or newer and put it on the path"


def main() -> int:
    """Exit code 0 when the compiler can run afterwards, else 2 with words that say what to do."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if sys.platform == "linux" and not libtpu.is_native():
            install()
        if trouble := compiler.missing():
            raise UserError(trouble)
        warm_up()
    except (UserError, InfraError, OSError) as error:
        log.error("the TPU compiler is not ready: %s", error)
        return 2
    log.info("the TPU compiler is ready: %s", ", ".join(f"{name} {version}" for name, version in compiler.versions().items()))
    return 0


def install() -> None:
    """Both parts, as far as they are not there."""
    runner = emulator.find()
    if runner is None or not runner.keeps_translations:
        install_box64()
    if libtpu.find() is None:
        install_libtpu()


def install_libtpu() -> None:
    """The library out of its wheel, into the tools folder."""
    log.info("downloading libtpu %s (about 200 MB) ...", libtpu.VERSION)
    target = libtpu.private()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        done = run([sys.executable, "-m", "pip", "download", "-q", "-d", work, *WHEEL, f"libtpu=={libtpu.VERSION}"])
        wheels = sorted(Path(work).glob("libtpu-*.whl"))
        if done.returncode or not wheels:
            raise InfraError(f"pip cannot download libtpu: {last_line(done.stderr)}")
        log.info("unpacking libtpu (about 600 MB) ...")
        unpacked = Path(work) / "libtpu.so"
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open("libtpu/libtpu.so") as source, unpacked.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        unpacked.replace(target)


def install_box64() -> None:
    """box64 and the C library it was built with, out of their packages, into the tools folder."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UserError(f"{BY_HAND}: it is fetched with apt-get and dpkg-deb, which are not here")
    architecture = ARCHITECTURES.get(platform.machine())
    lines = list(sources(SOURCES))
    if architecture is None or not lines:
        raise UserError(f"{BY_HAND}: there is no Debian archive for {platform.machine()} in {SOURCES}")
    log.info("downloading %s from Debian %s ...", ", ".join(PACKAGES), SUITE)
    home = emulator.home()
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as work:
        download(Path(work), architecture, lines)
        unpacked = Path(work) / "unpacked"
        for package in sorted(Path(work).glob("*.deb")):
            done = run(["dpkg-deb", "-x", str(package), str(unpacked)])
            if done.returncode:
                raise InfraError(f"cannot unpack {package.name}: {last_line(done.stderr)}")
        shutil.rmtree(home, ignore_errors=True)
        unpacked.rename(home)
    emulator.box64_version.cache_clear()
    if emulator.box64_version(tuple(emulator.private())) < emulator.OLDEST:
        raise UserError(f"{BY_HAND}: the one in Debian {SUITE} does not run here or is too old")


def download(work: Path, architecture: str, lines: Sequence[str]) -> None:
    """The packages as files, with an apt that knows nothing but one suite and writes nowhere else."""
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
        "APT::Sandbox::User": "root",  # the default one may not write here
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
    }
    apt = ["apt-get", "-qq", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]
    for words in (["update"], ["download", *PACKAGES]):
        done = run([*apt, *words], work)
        if done.returncode:
            raise InfraError(f"apt-get {words[0]}: {last_line(done.stderr)}; or {BY_HAND}")


def sources(folder: Path) -> Iterator[str]:
    """The machine's own archives of Debian, one line each, with our suite in place of theirs."""
    seen = set()
    for uri, keys in [*listed(folder), *described(folder)]:
        name = uri.rstrip("/").rsplit("/", 1)[-1]
        if name == "debian" and uri not in seen:
            seen.add(uri)
            yield f"deb {f'[signed-by={keys}] ' if keys else ''}{uri} {SUITE} main"


def listed(folder: Path) -> Iterator[tuple[str, str]]:
    """Addresses and keyrings in files of the older kind: `deb [options] address suite components`."""
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


def described(folder: Path) -> Iterator[tuple[str, str]]:
    """The same in files of the newer kind: paragraphs of `Key: value`."""
    for path in sorted(folder.glob("sources.list.d/*.sources")):
        for paragraph in path.read_text(errors="replace").split("\n\n"):
            fields = dict(line.split(":", 1) for line in paragraph.splitlines() if ":" in line and not line.startswith(("#", " ")))
            values = {name.strip().lower(): value.strip() for name, value in fields.items()}
            keys = values.get("signed-by", "")
            if "deb" in values.get("types", "").split() and values.get("enabled", "yes") != "no":
                yield from ((uri, keys if keys.startswith("/") else "") for uri in values.get("uris", "").split())


def warm_up() -> None:
    """Builds the driver and starts it once, so that the first kernel does not wait for it."""
    driver.build()
    compiler.base_options()
    runner = emulator.find()
    if runner and runner.keeps_translations and not driver.Translations.shared_folder(runner.version).is_dir():
        log.info("starting the TPU compiler for the first time ...")
        os.environ["JAX_PLATFORMS"] = "cpu"
        from evokernel.backends.pallas.warm_up import programs

        chip = chips.chip("v5e")
        with tempfile.TemporaryDirectory() as folder:
            for program in programs(chip):
                compiler.compile_program(program, chip.topology, Path(folder))
        compiler.close()


def run(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A program that is not ours, in plain English."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise InfraError(f"cannot start {command[0]}: {error}") from error


def last_line(text: str) -> str:
    """What a program complained of last."""
    return (text.strip().splitlines() or ["it does not say why"])[-1]


if __name__ == "__main__":
    sys.exit(main())
