"""The shape of the package, as tests. A failure says what to move, not only that something is wrong."""

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
LAYERS = [  # a package imports only packages in earlier rows, never its neighbours
    {"core"},
    {"llm", "reference", "sandbox"},
    {"tasks", "backends", "memory", "embedders", "generators", "policies", "verify", "engine", "reports"},
    {"executors"},
    {"experiments"},
    {"web"},
    {"cli"},
]
ROW = {name: i for i, row in enumerate(LAYERS) for name in row}
PLUGIN_KINDS = ("backends", "generators", "policies", "embedders", "executors")
ALLOWED = {  # (rule, file): reason
    ("except", "verify/candidate_main.py"): "the process that loads the candidate; whatever it raises is the candidate's",
}


def where(path: Path) -> str:
    return str(path.relative_to(SRC))


def package(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where(path)}:{node.lineno}: use absolute imports"
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def direction(path: Path, names: set[str]) -> list[str]:
    """Every import that points the wrong way."""
    here = package(path)
    bad = []
    for name in names:
        if name.startswith("evokernel."):
            there = name.split(".")[1]
            if there != here and not ROW[there] < ROW[here]:
                bad.append(f"{where(path)} imports {name}: {here} may not know {there}; move what both need into core")
    return bad


def is_plugin(path: Path) -> bool:
    text = path.read_text()
    return "\nplugin = " in text or "as plugin" in text


@pytest.mark.parametrize("path", [f for f in FILES if f.parent != SRC], ids=where)
def test_imports_point_one_way(path):
    assert direction(path, imports(path)) == []


def test_the_direction_test_can_fail():
    assert direction(SRC / "engine" / "loop.py", {"evokernel.memory.bank"})
    assert direction(SRC / "core" / "run.py", {"evokernel.engine.loop"})
    assert not direction(SRC / "cli" / "run.py", {"evokernel.app.factory"})


@pytest.mark.parametrize("kind", PLUGIN_KINDS)
def test_plugins_do_not_know_each_other(kind):
    names = {
        p.stem: (p / "__init__.py" if p.is_dir() else p)
        for p in (SRC / kind).iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    plugins = {name for name, file in names.items() if is_plugin(file)}
    for path in (f for f in FILES if package(f) == kind):
        mine = path.relative_to(SRC / kind).parts[0].removesuffix(".py")
        for name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["evokernel", kind] and len(parts) > 2 and parts[2] in plugins:
                assert parts[2] == mine, f"{where(path)} imports its sibling {name}; share through a module without a plug-in"


def test_core_needs_little():
    for path in (SRC / "core").glob("*.py"):
        for name in imports(path):
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names | {"pydantic", "numpy", "evokernel"}, f"{where(path)}: core may not need {top}"


@pytest.mark.parametrize("path", FILES, ids=where)
def test_size_and_manners(path):
    text = path.read_text()
    assert text.count("\n") <= 400, f"{where(path)}: over 400 lines; split by noun"
    tree = ast.parse(text)
    assert ast.get_docstring(tree) or not text.strip(), f"{where(path)}: say in a docstring what the module is for"
    bodies = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {id(n.value) for b in ast.walk(tree) if isinstance(b, bodies) for n in b.body if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        at = f"{where(path)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{at} {node.name} is over 60 lines"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            assert node.end_lineno - node.lineno < 8, f"{at}: long text belongs in a file"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            assert package(path) == "cli", f"{at}: log, do not print"
        if isinstance(node, ast.ExceptHandler) and ("except", where(path)) not in ALLOWED:
            assert node.type is not None, f"{at}: name the error"
            assert getattr(node.type, "id", "") not in {"Exception", "BaseException"}, f"{at}: name the error"


def test_the_loop_stays_readable():
    assert (SRC / "engine" / "loop.py").read_text().count("\n") <= 180, "the docs promise a loop one can read in a sitting"


def test_importing_does_nothing():
    code = "import sys; before = set(sys.modules); import evokernel; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['evokernel']"


def test_help_is_light():
    code = (
        "import sys; sys.argv = ['evokernel', '--help']\n"
        "from evokernel.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'jax', 'numpy', 'pydantic', 'rich', 'matplotlib', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]"), done.stdout
