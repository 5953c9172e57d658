"""Every task of the suites that are not large."""

from suite_checks import check, every


@every("starter,level3,mhc")
def test_a_sound_task(file):
    check(file)
