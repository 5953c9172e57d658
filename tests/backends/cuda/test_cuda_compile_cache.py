"""Objects of extensions are compiled once for the same content; errors are kept, what a machine did to a compiler is not."""

from pathlib import Path

import pytest

from evokernel.backends.cuda.model import compile_cache
from evokernel.backends.cuda.model.compile_cache import CompileStep, ObjectCache
from evokernel.backends.native.toolchain import CompilerRun


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of every compilation; sources with `bad` fail, with `slow` time out, others are copied."""
    calls: list[list[str]] = []

    def compile(program: str, arguments: list[str], workdir: Path, timeout_s: float, readable: list[Path]) -> CompilerRun:
        calls.append(arguments)
        text = (workdir / arguments[-3]).read_text()
        if "slow" in text:
            return CompilerRun(-9, "", timed_out=True)
        if "bad" in text:
            return CompilerRun(1, "error: bad")
        (workdir / arguments[-1]).write_text(f"object of {text}")
        return CompilerRun(0, "")

    monkeypatch.setattr(compile_cache, "run_compiler", compile)
    monkeypatch.setattr(compile_cache, "compiler_version_text", lambda program: f"{program} 1.0")
    return calls


def compile_text(
    tmp_path: Path, folder: str, text: str, headers: str = "h", options: tuple[str, ...] = ("-O3",)
) -> tuple[CompilerRun, str]:
    workdir = tmp_path / folder
    workdir.mkdir(exist_ok=True)
    step = CompileStep("nvcc", list(options), text, "device0", lambda: ["-include", "base.h"])
    result = ObjectCache(tmp_path / "cache").compile(step, workdir, headers, 10.0, [])
    target = workdir / "device0.o"
    return result, target.read_text() if target.exists() else ""


def test_the_same_content_is_compiled_once(tmp_path: Path, runs: list[list[str]]) -> None:
    first, second = (compile_text(tmp_path, folder, "a") for folder in ("one", "two"))
    assert first == second == (CompilerRun(0, ""), "object of a")
    assert runs == [["-include", "base.h", "-O3", "-c", "device0.src", "-o", "device0.o"]]


@pytest.mark.parametrize("change", [{"text": "b"}, {"headers": "other"}, {"options": ("-O0",)}])
def test_other_source_headers_or_flags_are_compiled_again(tmp_path: Path, runs: list[list[str]], change: dict) -> None:
    compile_text(tmp_path, "one", "a")
    compile_text(tmp_path, "two", **{"text": "a"} | change)
    assert len(runs) == 2


def test_errors_are_kept_and_timeouts_are_not(tmp_path: Path, runs: list[list[str]]) -> None:
    assert [compile_text(tmp_path, folder, "bad") for folder in ("one", "two")] == [(CompilerRun(1, "error: bad"), "")] * 2
    assert len(runs) == 1
    assert [compile_text(tmp_path, folder, "slow")[0].timed_out for folder in ("one", "two")] == [True, True]
    assert len(runs) == 3


def test_the_oldest_objects_are_removed(tmp_path: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache, "MAX_ENTRIES", 4)
    for number in range(6):
        compile_text(tmp_path, "one", f"source {number}")
    kept = list((tmp_path / "cache").glob("*/*.o"))
    assert 3 <= len(kept) <= 4
    assert {path.stem for path in kept} == {path.stem for path in (tmp_path / "cache").glob("*/*.json")}
    compile_text(tmp_path, "two", "source 5")
    assert len(runs) == 6, "the newest is still there"
