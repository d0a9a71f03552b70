"""Finding the task that a person means by a part of its id."""

from __future__ import annotations

from agentprof_collector.errors import TaskAmbiguous, TaskNotFound
from agentprof_collector.stores import Store


def find_task(store: Store, text: str) -> str:
    """The id of the task that is, or alone begins or ends with, the text; "…" stands for anything between.

    Raises:
        TaskNotFound: none.
        TaskAmbiguous: several.
    """
    begin, dots, end = text.partition("…")
    ids = store.task_ids(text) or (store.task_ids(begin, end) if dots else store.task_ids("", text))
    if not ids:
        raise TaskNotFound(text)
    if text not in ids and len(ids) > 1:
        raise TaskAmbiguous(text, ids)
    return text if text in ids else ids[0]
