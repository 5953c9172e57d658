"""Every failure signature maps to a reason or to a cause outside the candidate, and no message contains local paths."""

import tomllib

import pytest
from cann_toolkit import FAKE

from evokernel.backends.ascendc.cann import errors
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.verifier.reasons import REASONS

SIGNATURES = tomllib.loads((FAKE / "signatures.toml").read_text())
NAMES = {"op_kernel/kernel_custom.cpp": "op_kernel.cpp", "op_host/kernel_custom.cpp": "op_host.cpp"}
BLAMED = {"machine": InfraError, "user": UserError}


@pytest.mark.parametrize("name", SIGNATURES)
def test_error_signature_maps_to_reason_and_hint(name):
    wanted = SIGNATURES[name]
    error = errors.explain_failure(wanted["text"], wanted["step"], NAMES)
    if "reason" in wanted:
        assert isinstance(error, CandidateError)
        assert error.reason == wanted["reason"]
    else:
        assert type(error) is BLAMED[wanted["blame"]]
        assert "\n" not in str(error)
    assert wanted["says"] in str(error)
    assert wanted.get("hides", "/nowhere") not in str(error)


def test_every_reason_is_known():
    for pattern in errors.load_patterns():
        assert pattern.reason in REASONS if pattern.blame == "candidate" else pattern.blame in BLAMED
        assert set(pattern.steps) <= {errors.GENERATE, errors.BUILD, errors.INSTALL, errors.COMPILE, errors.RUN}


def test_every_pattern_has_a_signature():
    """Those that the study names, and their texts."""
    texts = " ".join(wanted["text"] for wanted in SIGNATURES.values())
    for code in ("161001", "161002", "561002", "561003", "507014", "507015", "507035"):
        assert code in texts


def test_only_the_first_errors_are_quoted():
    text = "".join(f"op_kernel/kernel_custom.cpp:{line}:1: error: expected ';'\n" for line in range(1, 8))
    error = errors.explain_failure(text, errors.BUILD, NAMES)
    assert str(error).count("error:") == 3
    assert "and 4 more errors" in str(error)


def test_noise_is_removed():
    text = "\x1b[31m-- Configuring done\n[ 50%] Building CXX\nmake[1]: *** Error 2\nmsopgen: something failed at /home/me/x/y.cpp\x1b[0m"
    assert errors.explain_failure(text, errors.BUILD).detail == "msopgen: something failed at y.cpp"


def test_failure_without_output_has_a_message():
    assert "without a message" in str(errors.explain_failure("", errors.BUILD))
