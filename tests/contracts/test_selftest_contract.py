"""Selftest candidates of every backend get their expected outcome; backends and candidates are discovered."""

from itertools import groupby

import pytest
from sampling import one_in

from evokernel.app.selftest import CATEGORIES, HONEST, load_cases, make_job, selftest_folder
from evokernel.core.plugins import make_plugin, plugin_names
from evokernel.verifier import verify

BACKENDS = [name for name in plugin_names("backend") if selftest_folder(name).is_dir()]
CASES = [one for name in BACKENDS for one in load_cases(name, selftest_folder(name))]
TIMED = ("openmp", "two-threads")
"""Honest candidates that are also timed; the others skip timing, which takes longest and reveals least."""
SELECTED = [
    one
    for backend, group in groupby(CASES, lambda one: one.backend)
    for one in one_in(24, group, lambda one: f"{one.backend}-{one.category}-{one.path.stem}", group=f"selftest of {backend}")
]
"""Some candidates of each backend run by default; all of them with `--sample all` and in `evokernel selftest`."""


def test_every_backend_has_selftest_candidates():
    assert plugin_names("backend") == BACKENDS, "add some in selftest/, see docs/selftest.md"


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_category_has_candidates(backend):
    categories = [one.category for one in CASES if one.backend == backend]
    assert set(categories) == set(CATEGORIES)
    assert categories.count(HONEST) >= 5
    assert len(categories) - categories.count(HONEST) >= 20


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("case", SELECTED)
def test_verifier_gives_the_expected_outcome(case):
    backend = make_plugin("backend", case.backend)
    if problem := backend.unavailable_reason() or backend.capabilities.limitations:
        pytest.skip(problem)
    job = make_job(case)
    if case.category == HONEST and case.path.stem not in TIMED:
        job = job.model_copy(update={"clock": "synthetic"})
    outcome = verify(job)
    assert case.is_expected_outcome(outcome), f"{case.expectation}; {outcome.failure}"
    assert outcome.feasible == (case.category == HONEST)
