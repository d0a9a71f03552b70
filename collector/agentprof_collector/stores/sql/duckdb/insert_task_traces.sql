INSERT INTO task_traces
SELECT DISTINCT task_id, trace_id
FROM (SELECT unnest($task_ids::VARCHAR[]) AS task_id, unnest($trace_ids::VARCHAR[]) AS trace_id) AS given
ANTI JOIN task_traces AS kept USING (task_id, trace_id);
