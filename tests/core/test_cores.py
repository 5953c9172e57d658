"""Workers share the cores of a machine."""

import pytest

from evokernel.core import cores


@pytest.mark.parametrize(("workers", "share"), [(1, 16), (4, 4), (12, 1), (40, 1)])
def test_every_worker_gets_its_share(monkeypatch, workers, share):
    monkeypatch.setattr(cores, "usable_cores", lambda: 16)
    variables = cores.make_share_variables(workers, {})
    assert variables == {name: str(share) for name in (cores.SHARE_VARIABLE, *cores.POOL_VARIABLES)}
    assert cores.core_share(variables) == share


def test_workers_of_a_worker_share_its_share(monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: 16)
    inner = cores.make_share_variables(2, cores.make_share_variables(4, {}))
    assert cores.core_share(inner) == 2


def test_what_the_user_set_is_kept():
    assert cores.make_share_variables(1, {"OMP_NUM_THREADS": "3"})["OMP_NUM_THREADS"] == "3"
