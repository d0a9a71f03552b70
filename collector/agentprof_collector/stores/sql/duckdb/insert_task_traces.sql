INSERT INTO task_traces SELECT unnest($task_ids::VARCHAR[]), unnest($trace_ids::VARCHAR[]);
