"""`hint("02.3")`: one more hint each time, until there are none left."""

from minititans.course import progress_file
from minititans.course.checking.words import wrapped
from minititans.course.labs import find_task


def hint(id: str) -> None:
    """Print the next hint for a task: first a question, then a method, then almost the line."""
    try:
        task = find_task(id)
    except ValueError as error:
        print(str(error).removeprefix("id: "))
        return
    shown = {}

    def count(progress):
        shown["before"] = progress.hints.get(id, 0)
        progress.hints[id] = min(shown["before"] + 1, len(task.hints))

    kept = progress_file.is_kept()
    try:
        if kept:
            progress_file.update(progress_file.course_folder(), count)
    except OSError:  # a folder that cannot be written to
        kept = False
    if not kept:
        count(_unkept)
    level = min(shown["before"], len(task.hints) - 1)
    print(f"Hint {level + 1} of {len(task.hints)} for {task.id} {task.function}:")
    print(wrapped(f"  {task.hints[level]}"))
    if shown["before"] >= len(task.hints):
        there = any((progress_file.course_folder() / "solutions").glob(f"{task.lab}_*"))
        where = f" The solution is in solutions/, lab {task.lab}." if there else ""
        print(f"  That was the last one.{where}")


_unkept = progress_file.Progress()  # where progress is not kept, hints are counted for this session
