"""The tasks of suite gradients."""

from suite_checks import check_task, parametrize_tasks


@parametrize_tasks("gradients")
def test_task_is_sound(file):
    check_task(file)
