SELECT summary
FROM tasks
WHERE ($name IS NULL OR name = $name) AND ($outcome IS NULL OR coalesce(outcome, 'unknown') = $outcome)
ORDER BY start_ns DESC, task_id;
