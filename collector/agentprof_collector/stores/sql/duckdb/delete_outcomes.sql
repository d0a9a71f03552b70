-- Outcomes of tasks of which nothing is left.
DELETE FROM outcomes
WHERE arrived_ns < $before_ns AND task_id NOT IN (
    SELECT task_id FROM task_traces
    UNION
    SELECT task_id FROM tasks
    UNION
    SELECT 'trace:' || trace_id FROM batches
);
