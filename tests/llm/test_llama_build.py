"""Building the server from source with the real pip, cmake, ninja and compiler, and a small source archive."""

import hashlib
import subprocess

import pytest

from evokernel.core.errors import InfraError, UserError
from evokernel.llm import llama_build, local_server

LISTS = b"""cmake_minimum_required(VERSION 3.14)
project(toy C)
add_executable(llama-server main.c)
"""
MAIN = b'#include <stdio.h>\nint main(void) { puts("served"); return 0; }\n'


def make_source(index, files):
    data = index.put_source("toy-cpp", "1.0", {f"vendor/llama.cpp/{name}": text for name, text in files.items()})
    return llama_build.SourceArchive("toy-cpp==1.0", hashlib.sha256(data).hexdigest(), "toy_cpp-1.0/vendor/llama.cpp")


def remaining_files():
    return sorted(path.name for path in llama_build.program_path().parent.iterdir() if path.suffix != ".lock")


def test_server_is_built_once_and_no_other_files_remain(only_index):
    toy, reports = make_source(only_index, {"CMakeLists.txt": LISTS, "main.c": MAIN}), []
    path = llama_build.build_server(toy, jobs=1, report=lambda *words: reports.append(words))
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"served\n"
    assert remaining_files() == [path.name]
    assert reports[0][0] == "downloading toy-cpp==1.0"
    assert reports[-1][0] == "compiling"
    assert reports[-1][1] == reports[-1][2] > 0
    assert llama_build.build_server(toy) == path
    assert only_index.downloads == ["toy-cpp"], "an existing program is not built again"


def test_archive_with_another_hash_is_not_extracted(only_index):
    toy = make_source(only_index, {"CMakeLists.txt": LISTS, "main.c": MAIN})
    with pytest.raises(InfraError, match=r"pip cannot download toy-cpp==1\.0: .*DO NOT MATCH"):
        llama_build.build_server(toy._replace(sha256="0" * 64))
    assert remaining_files() == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"CMakeLists.txt": b"syntax(error"}, "cmake failed to build llama-server"),
        (
            {"CMakeLists.txt": LISTS, "main.c": b"int main(void) { return undeclared; }"},
            "ninja failed to build llama-server: .*undeclared",
        ),
    ],
)
def test_failed_build_reports_the_error(files, message, only_index):
    with pytest.raises(InfraError, match=message):
        llama_build.build_server(make_source(only_index, files))
    assert remaining_files() == []


def test_missing_build_tools_are_named(only_index, monkeypatch):
    toy = make_source(only_index, {"CMakeLists.txt": LISTS, "main.c": MAIN})
    monkeypatch.setattr(llama_build, "find_tool", lambda name: None)
    with pytest.raises(UserError, match=r"cmake is not installed: pip install 'evokernel\[local\]'"):
        llama_build.build_server(toy)
    monkeypatch.setattr(llama_build, "find_tool", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(llama_build.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"no C\+\+ compiler: apt install g\+\+"):
        llama_build.build_server(toy)


def test_built_server_is_started(only_index, monkeypatch):
    monkeypatch.delenv(local_server.PROGRAM_VARIABLE, raising=False)
    path = llama_build.program_path()
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    assert local_server.find_missing_engine() == ""
    assert "built for this processor" in local_server.describe_engine()
    command, engine = local_server.select_engine("")
    assert engine == str(path)
    assert command("model.gguf", 8080, 1, 4096, "toy")[:3] == [str(path), "-m", "model.gguf"]
