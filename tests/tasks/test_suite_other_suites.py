"""All tasks of the suites starter, level3 and mhc."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("starter,level3,mhc")
def test_task_is_sound(file):
    check_task(file)
