-- The traces, and all that tasks tie to them, over any number of tasks and traces.
WITH RECURSIVE tied AS (
    SELECT unnest($trace_ids::VARCHAR[]) AS trace_id
    UNION
    SELECT other.trace_id
    FROM tied JOIN task_traces AS mine USING (trace_id) JOIN task_traces AS other ON other.task_id = mine.task_id
)
SELECT trace_id FROM tied;
