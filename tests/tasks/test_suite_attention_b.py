"""Every other task of attention."""

from suite_checks import check, every


@every("attention", part=1, parts=2)
def test_a_sound_task(file):
    check(file)
