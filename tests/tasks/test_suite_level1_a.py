"""Half of the tasks of suite level1."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("level1", part=0, parts=2)
def test_task_is_sound(file):
    check_task(file)
