SELECT rowid FROM tasks WHERE first_trace IN (SELECT unnest($trace_ids::VARCHAR[]));
