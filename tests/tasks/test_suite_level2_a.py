"""Every other task of level2."""

from suite_checks import check, every


@every("level2", part=0, parts=2)
def test_a_sound_task(file):
    check(file)
