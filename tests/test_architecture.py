"""Structure of the package: import direction, size and style of modules. Failure messages say what to change."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "evokernel"
SUITES = {p.name for p in (SRC / "tasks").iterdir() if p.is_dir()}
FILES = sorted(
    f
    for f in SRC.rglob("*.py")
    if not {"samples", "selftest"} & set(f.parts) and not (f.parts[len(SRC.parts)] == "tasks" and f.parts[len(SRC.parts) + 1] in SUITES)
)
LAYERS = [  # a package imports only packages in earlier rows, not those in its own row
    {"core"},
    {"llm", "reference", "sandbox"},
    {"tasks"},
    {"backends", "memory", "embedders", "generators", "policies", "verify", "engine"},
    {"executors", "reports"},
    {"torch_models"},
    {"app"},
    {"experiments"},
    {"web"},
    {"cli"},
]
ROW = {name: i for i, row in enumerate(LAYERS) for name in row}
PLUGIN_KINDS = ("backends", "generators", "policies", "embedders", "executors")
ALLOWED = {  # (rule, file): reason
    ("except", "verify/candidate_main.py"): "the process that loads the candidate: every exception is the candidate's fault",
}


def relative_path(path: Path) -> str:
    return str(path.relative_to(SRC))


def package_name(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative_path(path)}:{node.lineno}: use absolute imports"
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


def wrong_imports(path: Path, names: set[str]) -> list[str]:
    """Return a message for every import of a package in the same or a later row."""
    here = package_name(path)
    messages = []
    for name in names:
        if name.startswith("evokernel."):
            there = name.split(".")[1]
            if there != here and not ROW[there] < ROW[here]:
                messages.append(f"{relative_path(path)} imports {name}: {here} must not import {there}; move the shared code into core")
    return messages


def is_plugin(path: Path) -> bool:
    text = path.read_text()
    return "\nplugin = " in text or "as plugin" in text


@pytest.mark.parametrize("path", [f for f in FILES if f.parent != SRC], ids=relative_path)
def test_imports_point_one_way(path):
    assert wrong_imports(path, imported_modules(path)) == []


def test_wrong_imports_are_detected():
    assert wrong_imports(SRC / "engine" / "loop.py", {"evokernel.memory.bank"})
    assert wrong_imports(SRC / "core" / "run.py", {"evokernel.engine.loop"})
    assert not wrong_imports(SRC / "cli" / "run.py", {"evokernel.app.factory"})


@pytest.mark.parametrize("kind", PLUGIN_KINDS)
def test_plugins_do_not_import_each_other(kind):
    names = {
        p.stem: (p / "__init__.py" if p.is_dir() else p)
        for p in (SRC / kind).iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    plugins = {name for name, file in names.items() if is_plugin(file)}
    for path in (f for f in FILES if package_name(f) == kind):
        mine = path.relative_to(SRC / kind).parts[0].removesuffix(".py")
        for name in imported_modules(path):
            parts = name.split(".")
            if parts[:2] == ["evokernel", kind] and len(parts) > 2 and parts[2] in plugins:
                assert parts[2] == mine, f"{relative_path(path)} imports its sibling {name}; share code through a module without a plug-in"


def test_core_has_few_dependencies():
    allowed = sys.stdlib_module_names | {"pydantic", "numpy", "tomli_w", "evokernel"}
    for path in (SRC / "core").glob("*.py"):
        for name in imported_modules(path):
            top = name.split(".")[0]
            assert top in allowed, f"{relative_path(path)}: core must not import {top}"


@pytest.mark.parametrize("path", FILES, ids=relative_path)
def test_module_size_and_style(path):
    text = path.read_text()
    assert text.count("\n") <= 400, f"{relative_path(path)}: over 400 lines; split it by subject"
    tree = ast.parse(text)
    assert ast.get_docstring(tree) or not text.strip(), f"{relative_path(path)}: add a docstring that says what the module is for"
    bodies = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {id(n.value) for b in ast.walk(tree) if isinstance(b, bodies) for n in b.body if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        at = f"{relative_path(path)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{at} {node.name} is over 60 lines"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            assert node.end_lineno - node.lineno < 8, f"{at}: move long text into a file"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            assert package_name(path) == "cli", f"{at}: use logging instead of print"
        if isinstance(node, ast.ExceptHandler) and ("except", relative_path(path)) not in ALLOWED:
            assert node.type is not None, f"{at}: name the exception type"
            assert getattr(node.type, "id", "") not in {"Exception", "BaseException"}, f"{at}: name the exception type"


def test_loop_stays_short():
    assert (SRC / "engine" / "loop.py").read_text().count("\n") <= 180, "the docs promise a loop that can be read in one sitting"


def test_importing_the_package_imports_nothing_else():
    code = "import sys; before = set(sys.modules); import evokernel; print(sorted(set(sys.modules) - before))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "['evokernel']"


def test_help_imports_no_heavy_modules():
    code = (
        "import sys; sys.argv = ['evokernel', '--help']\n"
        "from evokernel.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'jax', 'numpy', 'scipy', 'pydantic', 'rich', 'matplotlib', 'openai', 'tomli_w') if m in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip().endswith("[]"), process.stdout
