"""The tasks of suite attention."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("attention")
def test_task_is_sound(file):
    check_task(file)
