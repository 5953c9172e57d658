"""Structure of the package: import direction, import cycles, style of modules. Failure messages say what to change."""

import ast
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "evokernel"
SUITES = {p.name for p in (SRC / "suites").iterdir() if p.is_dir()}
FILES = sorted(
    f
    for f in SRC.rglob("*.py")
    if not {"samples", "selftest"} & set(f.parts) and not (f.parts[len(SRC.parts)] == "suites" and f.parts[len(SRC.parts) + 1] in SUITES)
)
LAYERS = [  # a package imports only packages in earlier rows, not those in its own row
    {"core"},
    {"llm", "reference", "sandbox"},
    {"suites"},
    {"backends", "memory", "embedders", "generators", "policies", "verifier", "engine"},
    {"executors", "reports"},
    {"torch_models"},
    {"app"},
    {"rl"},
    {"experiments"},
    {"api"},
    {"web", "service", "mcp_server"},
    {"cli"},
]
ROW = {name: i for i, row in enumerate(LAYERS) for name in row}
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_TEXT_LINES = 400, 60, 8
PLUGIN_KINDS = ("backends", "generators", "policies", "embedders", "executors")
ALLOWED = {  # (rule, file): reason
    ("except", "verifier/candidate_main.py"): "the process that loads the candidate: every exception is the candidate's fault",
}


@cache
def relative_path(path: Path) -> str:
    return str(path.relative_to(SRC))


def package_name(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


@cache
def parse_module(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(parse_module(path)):
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


def test_imports_point_one_way():
    assert [message for path in FILES if path.parent != SRC for message in wrong_imports(path, imported_modules(path))] == []


def test_wrong_imports_are_detected():
    assert wrong_imports(SRC / "engine" / "loop.py", {"evokernel.memory.bank"})
    assert wrong_imports(SRC / "core" / "run.py", {"evokernel.engine.loop"})
    assert not wrong_imports(SRC / "cli" / "run.py", {"evokernel.app.factory"})


def module_files(package: Path) -> dict[str, Path]:
    """All modules of a package by name, except samples and self-test candidates, which are data."""
    files = [path for path in package.rglob("*.py") if not {"samples", "selftest"} & set(path.relative_to(package).parts[:-1])]
    names = [".".join((package.name, *path.relative_to(package).with_suffix("").parts)) for path in files]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, files)}


def import_graph(package: Path) -> dict[str, set[str]]:
    """Which module imports which: at the top, behind TYPE_CHECKING or inside a function."""
    files = module_files(package)
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                submodules = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= (submodules & files.keys()) | ({node.module} if submodules - files.keys() else set())
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        graph[name] = (imported & files.keys()) - {name}
    return graph


def find_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or not: the strongly connected components (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                yield from visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                yield sorted(group)

    return [group for module in sorted(graph) if module not in order for group in visit(module)]


def test_no_import_cycles():
    graph = import_graph(SRC)
    assert len(graph) > 400
    cycles = [", ".join(group) for group in find_cycles(graph)]
    assert cycles == [], "these modules import each other, perhaps behind TYPE_CHECKING: move what they share into its own module"


@pytest.mark.parametrize(
    "back_import",
    [
        "from planted.first import One",
        "from planted import first",
        "import planted.first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.first import One",
        "def call():\n    from planted.first import One",
    ],
    ids=["name", "module", "plain", "type checking", "inside a function"],
)
def test_planted_cycle_is_found(tmp_path, back_import):
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from planted.second import Two\nOne = Two\n")
    (package / "second.py").write_text("from planted.third import Three\nTwo = Three\n")
    (package / "third.py").write_text("Three = 3\n")
    assert find_cycles(import_graph(package)) == []
    (package / "third.py").write_text(f"{back_import}\nThree = 3\n")
    assert find_cycles(import_graph(package)) == [["planted.first", "planted.second", "planted.third"]]


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


def find_long_parts(path: Path) -> list[str]:
    """Long files, functions and texts: a signal to look, not a mistake."""
    text, tree = path.read_text(), parse_module(path)
    bodies = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {id(n.value) for b in ast.walk(tree) if isinstance(b, bodies) for n in b.body if isinstance(n, ast.Expr)}
    messages = (
        [f"{relative_path(path)}: over {MAX_FILE_LINES} lines; is it about one subject?"] if text.count("\n") > MAX_FILE_LINES else []
    )
    for node in ast.walk(tree):
        at = f"{relative_path(path)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= MAX_FUNCTION_LINES:
            messages.append(f"{at} {node.name} is over {MAX_FUNCTION_LINES} lines; does it do one thing?")
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        if is_text and node.end_lineno - node.lineno >= MAX_TEXT_LINES:
            messages.append(f"{at}: a text of over {MAX_TEXT_LINES} lines; does it belong in a file?")
    return messages


def test_module_style():
    for path in FILES:
        for message in find_long_parts(path):
            warnings.warn(message, stacklevel=1)
        check_style(path)


def check_style(path: Path) -> None:
    text = path.read_text()
    tree, here = parse_module(path), relative_path(path)
    assert ast.get_docstring(tree) or not text.strip(), f"{here}: add a docstring that says what the module is for"
    for node in ast.walk(tree):
        at = f"{here}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            assert package_name(path) == "cli", f"{at}: use logging instead of print"
        if isinstance(node, ast.ExceptHandler) and ("except", here) not in ALLOWED:
            assert node.type is not None, f"{at}: name the exception type"
            assert getattr(node.type, "id", "") not in {"Exception", "BaseException"}, f"{at}: name the exception type"


def test_long_parts_are_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SRC", tmp_path)
    lines = ["def long():", *["    pass"] * MAX_FUNCTION_LINES, "TEXT = '''", *["text"] * MAX_TEXT_LINES, "'''", *["pass"] * MAX_FILE_LINES]
    (tmp_path / "long.py").write_text("\n".join(lines) + "\n")
    assert [message.partition(" ")[0] for message in find_long_parts(tmp_path / "long.py")] == ["long.py:", "long.py:1", "long.py:62:"]


def test_loop_stays_short():
    assert (SRC / "engine" / "loop.py").read_text().count("\n") <= 180, "the docs promise a loop that can be read in one sitting"


@pytest.mark.toolchain
def test_importing_the_package_imports_nothing_else():
    code = "import sys; before = set(sys.modules); import evokernel; print(sorted(set(sys.modules) - before))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "['evokernel']"


@pytest.mark.toolchain
def test_help_imports_no_heavy_modules():
    code = (
        "import sys; sys.argv = ['evokernel', '--help']\n"
        "from evokernel.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'jax', 'numpy', 'scipy', 'pydantic', 'rich', 'matplotlib', 'openai', 'tomli_w') if m in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip().endswith("[]"), process.stdout
