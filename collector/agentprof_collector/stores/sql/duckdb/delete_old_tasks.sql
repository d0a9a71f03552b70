-- The traces hold whole tasks: the first trace of a task says whether it goes.
DELETE FROM tasks WHERE first_trace IN (SELECT unnest($trace_ids::VARCHAR[]));
