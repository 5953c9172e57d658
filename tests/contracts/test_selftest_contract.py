"""Every backend's candidates with a known verdict get it. Backends and candidates are found, not listed."""

from itertools import groupby

import pytest
from sampling import one_in

from evokernel.core.plugins import make_plugin, plugin_names
from evokernel.core.protocols import PartialBackend
from evokernel.experiments.selftest import CLASSES, HONEST, collect, job, shipped
from evokernel.verify import verify

BACKENDS = [name for name in plugin_names("backend") if shipped(name).is_dir()]
SPECIMENS = [one for name in BACKENDS for one in collect(name, shipped(name))]
TIMED = ("openmp", "two-threads")
"""Honest ones that are timed here as well; the others are judged up to the clock, which takes longest and tells least about them."""
CHOSEN = [
    one
    for _, group in groupby(SPECIMENS, lambda one: (one.backend, one.kind))
    for one in one_in(24, group, lambda one: f"{one.backend}-{one.kind}-{one.path.stem}")
]
"""Some of each class are judged whenever tests are run; all are with `-m ""`, and by `evokernel selftest`."""


def test_all_backends_ship_candidates():
    assert plugin_names("backend") == BACKENDS, "put some in selftest/, and see docs/selftest.md"


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_classes_have_candidates(backend):
    found = [one.kind for one in SPECIMENS if one.backend == backend]
    assert set(found) == set(CLASSES)
    assert found.count(HONEST) >= 5
    assert len(found) - found.count(HONEST) >= 20


@pytest.mark.parametrize("specimen", CHOSEN)
def test_the_judge_is_right(specimen):
    backend = make_plugin("backend", specimen.backend)
    if missing := backend.missing() or (backend.limitations() if isinstance(backend, PartialBackend) else None):
        pytest.skip(missing)
    asked = job(specimen)
    if specimen.kind == HONEST and specimen.path.stem not in TIMED:
        asked = asked.model_copy(update={"clock": "synthetic"})
    outcome = verify(asked)
    assert specimen.is_judged_rightly(outcome), f"{specimen.expected}; {outcome.failure}"
    assert outcome.feasible == (specimen.kind == HONEST)
