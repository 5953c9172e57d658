"""The tasks of suite level2."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("level2")
def test_task_is_sound(file):
    check_task(file)
