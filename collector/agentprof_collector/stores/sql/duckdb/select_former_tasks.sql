-- Rows of tasks that lie wholly in the given traces.
SELECT rowid, task_id
FROM tasks
WHERE first_trace IN (SELECT unnest($trace_ids::VARCHAR[])) AND list_has_all($trace_ids::VARCHAR[], trace_ids);
