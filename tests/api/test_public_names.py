"""The public names: the same at run time, for type checkers and in the documentation; loaded at first use only."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import evokernel as ek

ROOT = Path(__file__).parents[2]
STUB = Path(ek.__file__).with_suffix(".pyi")
HEAVY = ("torch", "jax", "numpy", "pydantic", "pandas", "matplotlib", "rich", "IPython")
SNIPPET = """
import evokernel as ek

reveal_type(ek.verify("text", "starter/softmax", backend="cpp").speedup)
reveal_type(ek.run("starter", budget=5).best("softmax").files)
reveal_type(ek.verify_many(["a", "b"], "starter/softmax")[0].correct)
async def main() -> None:
    reveal_type(await ek.averify("text", ek.task("mine.py")))
ek.run(budget="five")
ek.unknown
"""


def stub_names() -> set[str]:
    tree = ast.parse(STUB.read_text())
    names = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return {*names, *(node.target.id for node in tree.body if isinstance(node, ast.AnnAssign))}


def test_names_at_run_time_are_those_of_the_stub():
    assert set(ek.__all__) == stub_names()
    assert set(ek.__all__) <= set(dir(ek))
    for name in ek.__all__:
        assert getattr(ek, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'evokernel' has no attribute 'verfy'"):
        _ = ek.verfy


def test_every_name_is_in_the_documentation():
    page = (ROOT / "docs" / "python-api.md").read_text()
    assert [name for name in ek.__all__ if name not in page] == []


def public_members(name: str) -> list[tuple[str, object]]:
    """A public function, or a class with its public methods and properties."""
    value = getattr(ek, name)
    own = [(f"{name}.{key}", member) for key, member in vars(value).items() if not key.startswith("_")] if inspect.isclass(value) else []
    return [(name, value), *((label, member) for label, member in own if callable(member) or isinstance(member, property))]


def test_every_public_name_has_a_docstring():
    members = [pair for name in ek.__all__ if name != "__version__" for pair in public_members(name)]
    assert len(members) > 60
    assert [label for label, member in members if not inspect.getdoc(member)] == []


def test_every_argument_of_a_function_is_documented():
    missing = [
        f"{name}({parameter})"
        for name in ek.__all__
        if inspect.isfunction(function := getattr(ek, name)) and not name.startswith("a")
        for parameter in inspect.signature(function).parameters
        if f"{parameter}: " not in (function.__doc__ or "")
    ]
    assert missing == []


@pytest.mark.toolchain
def test_import_loads_nothing_heavy():
    code = f"import evokernel as ek, sys; dir(ek); print([name for name in {HEAVY} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.toolchain
def test_a_known_task_is_shown_without_torch():
    ek.task("starter/softmax")  # runs the reference unless the cache has the task
    code = "import evokernel as ek, sys; print(ek.task('starter/softmax')); print('torch' in sys.modules, 'pandas' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "x:float32[512,1024]" in process.stdout
    assert process.stdout.strip().endswith("False False")


@pytest.mark.toolchain
@pytest.mark.slow(one_in=2)
def test_types_are_known_to_type_checkers(tmp_path):
    (tmp_path / "snippet.py").write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", tmp_path / "snippet.py"]
    process = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [line.partition(": ")[2] for line in process.stdout.splitlines() if "snippet.py" in line]
    assert [line for line in lines if line.startswith("note")] == [
        'note: Revealed type is "float | None"',
        'note: Revealed type is "dict[str, str]"',
        'note: Revealed type is "bool"',
        'note: Revealed type is "evokernel.api.verifications.Verification"',
    ]
    errors = [line for line in lines if line.startswith("error")]
    assert len(errors) == 2
    assert 'incompatible type "str"; expected "int | None"' in errors[0]
    assert 'has no attribute "unknown"' in errors[1]
