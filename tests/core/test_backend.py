"""The base class of backends: what a newcomer must write, and what missing parts and packages are reported as."""

import sys
from types import ModuleType

import pytest

from evokernel.core.backend import Backend, Capabilities
from evokernel.core.errors import ToolUnavailable, UserError
from evokernel.core.plugins import make_plugin


class Small(Backend):
    def entry_point(self, task):
        return "void kernel()"

    def screen(self, task, candidate, workdir):
        return ()

    def build(self, task, candidate, workdir):
        pass

    def load(self, workdir):
        raise NotImplementedError


class Unfinished(Backend):
    pass


class Lookalike:
    def unavailable_reason(self):
        return None


@pytest.fixture
def plugin_module(monkeypatch, tmp_path):
    module = ModuleType("small_backend")
    module.__file__ = str(tmp_path / "small_backend.py")
    for plugin in (Small, Unfinished, Lookalike):
        setattr(module, plugin.__name__, plugin)
        monkeypatch.setattr(plugin, "__module__", "small_backend")
    monkeypatch.setitem(sys.modules, "small_backend", module)
    return tmp_path


def test_defaults_are_those_of_a_compiled_kernel_on_the_host(plugin_module):
    backend = make_plugin("backend", "small_backend:Small")
    assert backend.unavailable_reason() is None
    assert backend.capabilities == Capabilities(timing="host", tracing="no", is_simulated=False)
    assert backend.has_candidate_code(plugin_module), "what the process of a compiled kernel reports is not trusted"
    assert not backend.sanitizer().is_available, "a missing sanitizer is reported, not passed over"
    with pytest.raises(ToolUnavailable, match="times"):
        backend.estimate_latency(None, plugin_module, "")


def test_class_that_is_no_backend_is_refused_with_the_fix(plugin_module):
    with pytest.raises(UserError, match=r"inherit from evokernel\.core\.backend\.Backend"):
        make_plugin("backend", "small_backend:Lookalike")
    with pytest.raises(UserError, match="entry_point"):
        make_plugin("backend", "small_backend:Unfinished")


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        ("# comment\npytest\n", None),
        ("no-such-package-xyz==1.0\n", "no-such-package-xyz is not installed; run: pip install no-such-package-xyz==1.0"),
        ("pytest==0.0.1\n", "but 0.0.1 is needed; run: pip install pytest==0.0.1"),
    ],
)
def test_requirements_of_a_backend_are_checked(plugin_module, requirements, reason):
    (plugin_module / "requirements.txt").write_text(requirements)
    answer = make_plugin("backend", "small_backend:Small").unavailable_reason()
    assert answer is None if reason is None else reason in answer
