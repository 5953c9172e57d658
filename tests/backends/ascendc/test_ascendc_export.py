"""An exported Ascend C operator passes its own tests on the simulator, and a wrong one fails them."""

import pytest
import sample_export

from evokernel.core.plugins import make_plugin, plugin_folder

SAMPLES = plugin_folder("backend", "ascendc") / "samples"
pytestmark = pytest.mark.toolchain


@pytest.mark.slow(one_in=5)
def test_exported_tests_pass_for_a_good_operator_and_fail_for_a_bad_one(tmp_path):
    if reason := make_plugin("backend", "ascendc", toolchain="simulator").unavailable_reason():
        pytest.skip(reason)
    good = (SAMPLES / "good" / "kernel.asc").read_text()
    kernel = sample_export.export_kernel(tmp_path, SAMPLES / "task.py", "ascendc", {"kernel.asc": good})
    output = sample_export.run_tests(kernel.folder)
    assert "failed" not in output, output
    assert "::test_compiled_model_equals_eager" in output
    bad = (SAMPLES / "mismatch-formula" / "kernel.asc").read_text()
    (kernel.folder / "kernel.asc").write_text(bad)
    assert "3 failed" in sample_export.run_tests(kernel.folder, "-k", "matches_the_reference")


def test_export_does_not_reveal_hidden_sizes(tmp_path):
    good = (SAMPLES / "good" / "kernel.asc").read_text()
    kernel = sample_export.export_kernel(tmp_path, SAMPLES / "task.py", "ascendc", {"kernel.asc": good})
    assert '"sizes": {\n    "bench": {}\n  }' in (kernel.folder / "task.json").read_text()
