"""What every backend owes: whatever a candidate does, `verify` gives an Outcome with the right reason and never raises.

Backends are found, not listed, and bring a task of their own in `samples/task.py` with candidates for it: `samples/good*/` pass, the others
fail for the reason their folder's name begins with (before the first dash).
"""

from itertools import groupby

import pytest
from sampling import one_in

from evokernel.core.plugins import make_plugin, plugin_folder, plugin_names
from evokernel.core.records import Candidate, Job
from evokernel.tasks.loader import load
from evokernel.verify import verify
from evokernel.verify.reasons import REASONS

BACKENDS = plugin_names("backend")


def samples(backend):
    return sorted(
        path for path in (plugin_folder("backend", backend) / "samples").iterdir() if path.is_dir() and not path.name.startswith("_")
    )


def chosen(backend):
    """For each reason one of twelve by default; where there are many reasons, for every fifth one."""
    groups = [[(backend, path) for path in alike] for _, alike in groupby(samples(backend), lambda path: path.name.partition("-")[0])]
    every = 5 if len(groups) > MANY else 1
    for number, group in enumerate(groups):
        found = one_in(12, group, lambda one: f"{one[0]}-{one[1].name}")
        is_spared = number % every and not group[0][1].name.startswith("good")
        yield from (pytest.param(*one.values, id=one.id, marks=pytest.mark.slow) for one in found) if is_spared else found


MANY, UNTIMED = 12, "times ("
SAMPLES = [sample for backend in BACKENDS for sample in chosen(backend)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_brings_what_others_need(backend):
    home = plugin_folder("backend", backend)
    assert list((home / "knowledge").glob("*.md")), "write knowledge cards"
    assert (home / "prompts" / "rules.md").read_text().strip()
    found = [path.name for path in samples(backend)]
    good = [name for name in found if name.startswith("good")]
    assert good, "bring a good sample"
    assert len(found) - len(good) >= 10, "bring ten bad samples"
    unknown = {name.partition("-")[0] for name in found if name not in good} - set(REASONS)
    assert not unknown, f"samples named after no known reason: {unknown}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_declares_an_entry_point_for_every_task(backend):
    task = load(str(plugin_folder("backend", backend) / "samples" / "task.py"))[0]
    text = make_plugin("backend", backend).entry(task)
    for tensor in (*task.signature.inputs, *task.signature.params, *task.signature.scalars, *task.signature.outputs):
        assert tensor.name in text


@pytest.mark.parametrize(("backend", "path"), SAMPLES)
def test_any_candidate_gives_an_outcome(backend, path):
    if missing := make_plugin("backend", backend).missing():
        pytest.skip(missing)
    task = load(str(path.parent / "task.py"))[0]
    candidate = Candidate(
        backend=backend, files={str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()}
    )
    reason = path.name.partition("-")[0]
    timeout_s = 1.5 if reason == "timeout" else 60
    outcome = verify(Job(backend=backend, task=task, candidate=candidate, timeout_s=timeout_s))
    if reason != "not_run" and outcome.failure and outcome.failure.reason == "not_run":
        pytest.skip(outcome.failure.detail)
    if outcome.feasible and any(line.startswith(UNTIMED) for line in outcome.skipped_checks):
        pytest.skip("not timed: there is no device here" if reason == "good" else "what is wrong with it shows on a device alone")
    if reason == "good":
        assert outcome.feasible, outcome.failure
        assert outcome.latency_us > 0
        assert outcome.baseline_us, "hold it against something"
        assert all(len(samples) == len(outcome.samples_us) > 0 for samples in outcome.baseline_us.values())
        assert outcome.clock in ("cpu", "wall", "gpu") or outcome.clock.startswith("estimate (")
        assert outcome.versions
    else:
        assert outcome.failure is not None
        assert outcome.failure.reason == reason, outcome.failure
        assert outcome.failure.detail
        assert not outcome.samples_us
