"""Every other task of attention."""

from suite_checks import check, every


@every("attention", part=0, parts=2)
def test_a_sound_task(file):
    check(file)
