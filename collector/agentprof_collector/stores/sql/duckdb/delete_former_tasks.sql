-- Tasks that lie wholly in the given traces and are not among the given ids.
DELETE FROM tasks
WHERE list_has_all($trace_ids::VARCHAR[], trace_ids) AND NOT list_contains($ids::VARCHAR[], task_id);
