"""Shared by all tests: the tiers, a private cache, and one database server."""

import gc
import os
import time
from pathlib import Path

import pytest
import repository
import sampling
import tiers
from hypothesis import HealthCheck, settings

from evokernel.cli import heartbeat
from evokernel.core import paths

os.environ["EVOKERNEL_TOOLS"] = str(paths.tools_folder())
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run in parallel: more threads than processors would slow them down
heartbeat.QUIET_S = 1e9  # how many lines a command prints must not depend on how fast the machine is
gc.set_threshold(100_000, 50, 50)  # much stays alive until the end, and a collection looks at all of it
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")  # no test depends on how fast the machine is
SHARED_CACHES = ("headers", "ascendc")
"""Parts of the cache that are compiled once per machine and shared by all test workers."""
SAMPLE_VARIABLE = "EVOKERNEL_TEST_SAMPLE"
FAST_TEST_S = 4.0
"""A fast test takes less processor time; one that takes more is named at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers of tests")
    group.addoption("--fast", action="store_true", help="run only tests that need no toolchain and little time")
    group.addoption("--sample", metavar="TEXT", help=f"which cases of wide sets run: follows from TEXT (default: ${SAMPLE_VARIABLE}, else "
                    f"the commit); '{sampling.EVERYTHING}' leaves none out")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.option.sample = config.option.sample or os.environ.get(SAMPLE_VARIABLE) or repository.current_commit()
    if config.option.fast:
        config.pluginmanager.register(FastTier(), "fast-tier")


def pytest_report_header(config: pytest.Config) -> str:
    sample = config.option.sample
    return "sample: everything" if sample == sampling.EVERYTHING else f"sample: {sample} (repeat it with --sample {sample})"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sample, named = config.option.sample, tuple(argument for argument in config.args if "::" in argument)
    left_out = []
    for item in items:
        if tiers.needs_toolchain(item):
            item.add_marker("toolchain")
        is_named = item.nodeid.startswith(named) if named else False
        is_fast = not item.get_closest_marker("toolchain") and not item.get_closest_marker("heavy")
        if (config.option.fast and not is_fast) or not (is_named or sampling.is_chosen(item, sample)):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


class FastTier:
    """Imports no files that need a toolchain, fails a test that starts a program all the same, and names tests that take long."""

    def __init__(self) -> None:
        self.guard = tiers.ProgramGuard()
        self.long_tests: list[str] = []

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if tiers.is_toolchain_path(collection_path) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self):
        with self.guard.watch():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item):
        start_s = time.process_time()
        with self.guard.watch():
            result = yield
        item.user_properties.append(("processor_s", time.process_time() - start_s))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get("processor_s", 0)
        if report.when == "call" and seconds > FAST_TEST_S:
            self.long_tests.append(f"{report.nodeid} took {seconds:.1f} s of processor time")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.long_tests:
            terminalreporter.write_line(f"{line}; make it smaller, or mark it with pytest.mark.heavy", yellow=True)


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests of this process."""
    import postgres_server

    if problem := postgres_server.unavailable_reason():
        pytest.skip(problem)
    server = postgres_server.Postgres()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def private_cache(monkeypatch, tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "cache"
    if "PYTEST_XDIST_WORKER" in os.environ and not cache.exists():
        cache.mkdir()
        for name in SHARED_CACHES:
            common = cache.parent.parent / name
            common.mkdir(exist_ok=True)
            (cache / name).symlink_to(common)
    monkeypatch.setenv("EVOKERNEL_CACHE", str(cache))
