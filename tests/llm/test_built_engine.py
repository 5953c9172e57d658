"""A server built from source, for this processor: pip, cmake, ninja and the compiler are real, the source is a small one."""

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


def source(index, files):
    data = index.put_source("toy-cpp", "1.0", {f"vendor/llama.cpp/{name}": text for name, text in files.items()})
    return llama_build.Source("toy-cpp==1.0", hashlib.sha256(data).hexdigest(), "toy_cpp-1.0/vendor/llama.cpp")


def left():
    return sorted(path.name for path in llama_build.program().parent.iterdir() if path.suffix != ".lock")


def test_built_once_and_nothing_else_is_left(only_index):
    toy, told = source(only_index, {"CMakeLists.txt": LISTS, "main.c": MAIN}), []
    path = llama_build.build(toy, jobs=1, report=lambda *words: told.append(words))
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"served\n"
    assert left() == [path.name]
    assert told[0][0] == "fetching toy-cpp==1.0"
    assert told[-1][0] == "compiling"
    assert told[-1][1] == told[-1][2] > 0
    assert llama_build.build(toy) == path
    assert only_index.downloads == ["toy-cpp"], "what is here is not built again"


def test_another_archive_than_was_pinned_is_not_looked_at(only_index):
    toy = source(only_index, {"CMakeLists.txt": LISTS, "main.c": MAIN})
    with pytest.raises(InfraError, match=r"pip cannot download toy-cpp==1\.0: .*DO NOT MATCH"):
        llama_build.build(toy._replace(sha256="0" * 64))
    assert left() == []


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"CMakeLists.txt": b"syntax(error"}, "cmake failed while it built llama-server"),
        (
            {"CMakeLists.txt": LISTS, "main.c": b"int main(void) { return undeclared; }"},
            "ninja failed while it built llama-server: .*undeclared",
        ),
    ],
)
def test_a_build_that_fails_says_why(files, told, only_index):
    with pytest.raises(InfraError, match=told):
        llama_build.build(source(only_index, files))
    assert left() == []


def test_what_a_build_needs_is_said(only_index, monkeypatch):
    toy = source(only_index, {"CMakeLists.txt": LISTS, "main.c": MAIN})
    monkeypatch.setattr(llama_build, "tool_for", lambda name: None)
    with pytest.raises(UserError, match=r"cmake is not installed: pip install 'evokernel\[local\]'"):
        llama_build.build(toy)
    monkeypatch.setattr(llama_build, "tool_for", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(llama_build.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"no C\+\+ compiler: apt install g\+\+"):
        llama_build.build(toy)


def test_what_was_built_is_what_is_started(only_index, monkeypatch):
    monkeypatch.delenv(local_server.PROGRAM, raising=False)
    path = llama_build.program()
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    assert local_server.lacking() == ""
    assert "built for this processor" in local_server.engine_name()
    command, engine = local_server.engine_for("")
    assert engine == str(path)
    assert command("model.gguf", 8080, 1, 4096, "toy")[:3] == [str(path), "-m", "model.gguf"]
