SELECT DISTINCT trace_id FROM task_traces WHERE task_id IN (SELECT unnest($task_ids::VARCHAR[]));
