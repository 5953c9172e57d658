"""What the command line's tests share: the program called in this process, a small task, and one real run."""

import sys
from pathlib import Path

import pytest
from cli_calls import KERNEL, TASK, Call, Said

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The program, in this process."""
    from evokernel.cli.main import main

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ops") / "double.py"
    file.write_text(TASK)
    return file


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script of two kernels for that task: one that is wrong, one that is right."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "double").mkdir()
    (folder / "double" / "1.cpp").write_text(KERNEL.replace("+ 1", "+ 2"))
    (folder / "double" / "2.cpp").write_text(KERNEL)
    return folder
