"""Half of the tasks of suite attention."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("attention", part=1, parts=2)
def test_task_is_sound(file):
    check_task(file)
