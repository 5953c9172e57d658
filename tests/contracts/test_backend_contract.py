"""Contract of every backend: for any candidate, `verify` returns an Outcome with the right reason and never raises.

The test discovers backends. Each brings a task in `samples/task.py` with candidates for it: `samples/good*/` pass, the others fail for the
reason at the beginning of their folder's name (before the first dash), or for one of several that are joined by `+`. A sample for another
task names it in a file `task.txt`, or brings its own `task.py`.
"""

import ast
import re
from pathlib import Path

import pytest
from sampling import one_in
from time_limits import HANG_S

import evokernel
from evokernel.core.backend import Backend
from evokernel.core.plugins import find_plugin, make_plugin, plugin_folder, plugin_names
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify
from evokernel.verifier.reasons import REASONS

BACKENDS = plugin_names("backend")


def samples(backend):
    return sorted(
        path for path in (plugin_folder("backend", backend) / "samples").iterdir() if path.is_dir() and not path.name.startswith("_")
    )


def select_samples(backend):
    """Return all samples, of which one good and one in sixteen of the others run by default."""
    for kind in (True, False):
        chosen = [(backend, path) for path in samples(backend) if path.name.startswith("good") is kind]
        yield from one_in(16, chosen, lambda one: f"{one[0]}-{one[1].name}", group=f"samples of {backend}, {'good' if kind else 'bad'}")


def sample_reasons(name):
    """Return the reasons for which a sample may fail: a race shows as itself in an interpreter, and as wrong values on a device."""
    return name.partition("-")[0].split("+")


def load_sample_task(path):
    """Return the task that a sample is for."""
    own, named = path / "task.py", path / "task.txt"
    return load_tasks(named.read_text().strip() if named.exists() else str(own if own.exists() else path.parent / "task.py"))[0]


UNTIMED = "times ("
TASK_FILES = ("task.txt", "task.py")
SAMPLES = [sample for backend in BACKENDS for sample in select_samples(backend)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_backend_has_cards_rules_and_samples(backend):
    home = plugin_folder("backend", backend)
    assert list((home / "knowledge").glob("*.md")), "write knowledge cards"
    assert (home / "prompts" / "rules.md").read_text().strip()
    names = [path.name for path in samples(backend)]
    good = [name for name in names if name.startswith("good")]
    assert good, "add a good sample"
    assert len(names) - len(good) >= 10, "add ten bad samples"
    unknown = {reason for name in names if name not in good for reason in sample_reasons(name)} - set(REASONS)
    assert not unknown, f"samples with an unknown reason in their name: {unknown}"


PROBES = ("isinstance", "issubclass", "getattr", "hasattr")


def find_backend_probes(text):
    """Return the calls in a module that ask a backend for its kind or for an attribute that the base class does not declare."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in PROBES]
    return [ast.unparse(call) for call in calls if re.search(r"\b(backend|plugin)s?$", ast.unparse(call.args[0]))]


def test_no_caller_asks_what_kind_of_backend_it_has():
    home = Path(str(evokernel.__file__)).parent
    files = [path for path in home.rglob("*.py") if path.relative_to(home).parts[0] != "backends"]
    assert {str(path): probes for path in files if (probes := find_backend_probes(path.read_text()))} == {}
    assert find_backend_probes("if isinstance(trial.backend, Traced): pass\nhasattr(plugin, 'file')") == [
        "isinstance(trial.backend, Traced)",
        "hasattr(plugin, 'file')",
    ]


def test_a_backend_needs_four_methods():
    assert Backend.__abstractmethods__ == {"entry_point", "screen", "build", "load"}
    assert all(issubclass(find_plugin("backend", name), Backend) for name in BACKENDS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_entry_point_names_every_argument(backend):
    task = load_tasks(str(plugin_folder("backend", backend) / "samples" / "task.py"))[0]
    text = make_plugin("backend", backend).entry_point(task)
    for tensor in (*task.signature.inputs, *task.signature.params, *task.signature.scalars, *task.signature.outputs):
        assert tensor.name in text


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(("backend", "path"), SAMPLES)
def test_sample_gives_the_expected_outcome(backend, path):
    if problem := make_plugin("backend", backend).unavailable_reason():
        pytest.skip(problem)
    task = load_sample_task(path)
    files = {str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file() and file.name not in TASK_FILES}
    candidate = Candidate(backend=backend, files=files)
    reason, *others = sample_reasons(path.name)
    timeout_s = 1.5 if reason == "timeout" else HANG_S
    outcome = verify(Job(backend=backend, task=task, candidate=candidate, timeout_s=timeout_s))
    if reason != "not_run" and outcome.failure and outcome.failure.reason == "not_run":
        pytest.skip(outcome.failure.detail)
    if outcome.feasible and any(line.startswith(UNTIMED) for line in outcome.skipped_checks):
        pytest.skip("not timed: this machine has no device" if reason == "good" else "the error only shows on a device")
    if reason == "good":
        assert outcome.feasible, outcome.failure
        assert outcome.latency_us > 0
        assert outcome.baseline_us, "compare it with a baseline"
        assert all(len(samples) == len(outcome.samples_us) > 0 for samples in outcome.baseline_us.values())
        assert outcome.clock in ("cpu", "wall", "gpu") or outcome.clock.startswith("estimate (")
        assert outcome.versions
    else:
        assert outcome.failure is not None
        assert outcome.failure.reason in (reason, *others), outcome.failure
        assert outcome.failure.detail
        assert not outcome.samples_us
