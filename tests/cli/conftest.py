"""Fixtures of the command-line tests: the program called in this process, a small task, and candidates for it."""

from pathlib import Path

import pytest
from cli_helpers import KERNEL, TASK, Call, CommandResult


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the program in this process."""
    from evokernel.cli.main import main

    def run(*arguments: object) -> CommandResult:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main([str(argument) for argument in arguments])
        return CommandResult(int(exit_info.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ops") / "double.py"
    file.write_text(TASK)
    return file


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replies for the generator from_files: a wrong kernel, then a correct one."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "double").mkdir()
    (folder / "double" / "1.cpp").write_text(KERNEL.replace("+ 1", "+ 2"))
    (folder / "double" / "2.cpp").write_text(KERNEL)
    return folder
