SELECT rowid, task_id, trace_ids FROM tasks WHERE rowid IN (SELECT unnest($places::BIGINT[]));
