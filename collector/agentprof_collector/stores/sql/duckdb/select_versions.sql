SELECT rowid, task_id, spans, facts FROM tasks WHERE task_id IN (SELECT unnest($ids::VARCHAR[]));
