-- The traces, and all that tasks tie to them, over any number of tasks and traces.
-- Each batch of a trace has its own copy of a pair: those are removed first, or a join has their product.
WITH RECURSIVE pairs AS MATERIALIZED (
    SELECT DISTINCT task_id, trace_id FROM task_traces
),
tied AS (
    SELECT unnest($trace_ids::VARCHAR[]) AS trace_id
    UNION
    SELECT other.trace_id
    FROM tied JOIN pairs AS mine USING (trace_id) JOIN pairs AS other ON other.task_id = mine.task_id
)
SELECT trace_id FROM tied;
