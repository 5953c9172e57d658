"""Every failure signature comes out as a reason, or takes the blame off the candidate; no text shows where things lie on this machine."""

import tomllib

import pytest
from cann_toolkit import FAKE

from evokernel.backends.ascendc.cann import errors
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.verify.reasons import REASONS

SIGNATURES = tomllib.loads((FAKE / "signatures.toml").read_text())
NAMES = {"op_kernel/kernel_custom.cpp": "op_kernel.cpp", "op_host/kernel_custom.cpp": "op_host.cpp"}
BLAMED = {"machine": InfraError, "user": UserError}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    wanted = SIGNATURES[name]
    error = errors.explain(wanted["text"], wanted["step"], NAMES)
    if "reason" in wanted:
        assert isinstance(error, CandidateError)
        assert error.reason == wanted["reason"]
    else:
        assert type(error) is BLAMED[wanted["blame"]]
        assert "\n" not in str(error)
    assert wanted["says"] in str(error)
    assert wanted.get("hides", "/nowhere") not in str(error)


def test_every_reason_is_one_of_ours():
    for pattern in errors.patterns():
        assert pattern.reason in REASONS if pattern.blame == "candidate" else pattern.blame in BLAMED
        assert set(pattern.steps) <= {errors.GENERATE, errors.BUILD, errors.INSTALL, errors.COMPILE, errors.RUN}


def test_every_pattern_of_codes_is_met():
    """Those that the study names, and their texts."""
    told = " ".join(wanted["text"] for wanted in SIGNATURES.values())
    for code in ("161001", "161002", "561002", "561003", "507014", "507015", "507035"):
        assert code in told


def test_only_the_first_errors_are_quoted():
    text = "".join(f"op_kernel/kernel_custom.cpp:{line}:1: error: expected ';'\n" for line in range(1, 8))
    error = errors.explain(text, errors.BUILD, NAMES)
    assert str(error).count("error:") == 3
    assert "and 4 more errors" in str(error)


def test_noise_is_cut():
    text = "\x1b[31m-- Configuring done\n[ 50%] Building CXX\nmake[1]: *** Error 2\nmsopgen: something failed at /home/me/x/y.cpp\x1b[0m"
    assert errors.explain(text, errors.BUILD).detail == "msopgen: something failed at y.cpp"


def test_silence():
    assert "without a word" in str(errors.explain("", errors.BUILD))
