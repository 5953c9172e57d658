"""The tasks of suite level1."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("level1")
def test_task_is_sound(file):
    check_task(file)
