"""Display names of baselines and clocks."""

import pytest

from evokernel.core import labels


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["eager"], "PyTorch eager"),
        (["compile"], "torch.compile"),
        (["xla"], "XLA"),
        (["xla", "xla", "eager", ""], "PyTorch eager, XLA"),
        (["mine"], "mine"),
        ([""], "the baseline"),
    ],
)
def test_baseline_labels(names, text):
    assert labels.baseline_label(names) == text


@pytest.mark.parametrize(
    ("names", "text", "label"),
    [
        (["cpu"], "CPU time per core", ""),
        (["wall", "", "wall"], "wall time", ""),
        (["tpu"], "time on a TPU", ""),
        (["synthetic"], "synthetic (not measured)", "synthetic (not measured)"),
        (["estimate (schedule)"], "estimate (schedule)", "estimate (schedule)"),
        (["model"], "estimate (model)", "estimate (model)"),
        (["cpu", "estimate (schedule)"], "CPU time per core, estimate (schedule)", "estimate (schedule)"),
        ([], "not measured", ""),
    ],
)
def test_clock_labels(names, text, label):
    assert labels.clock_label(names) == text
    assert labels.estimate_note(iter(names)) == label


def test_speedup_phrase_names_the_baseline():
    assert labels.speedup_phrase(1.5, "xla") == ", 1.50x the speed of XLA"
    assert labels.speedup_phrase(1.5, "") == ", 1.50x the speed of the baseline"
    assert labels.speedup_phrase(None, "xla") == ""
