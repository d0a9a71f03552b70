DELETE FROM task_traces WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
