-- Living are traces in which something happened since, and all that are tied to one of them by a task.
WITH RECURSIVE links AS (
    SELECT task_id, trace_id FROM task_traces
    UNION
    SELECT task_id, unnest(trace_ids) AS trace_id FROM tasks
),
living AS (
    (
        SELECT trace_id FROM batches WHERE arrived_ns >= $before_ns
        UNION
        SELECT trace_id FROM links
        WHERE task_id IN (
            SELECT task_id FROM tasks WHERE end_ns >= $before_ns
            UNION
            SELECT task_id FROM outcomes WHERE arrived_ns >= $before_ns
        )
    )
    UNION
    SELECT other.trace_id
    FROM living JOIN links AS mine USING (trace_id) JOIN links AS other ON other.task_id = mine.task_id
)
SELECT trace_id FROM (SELECT trace_id FROM batches UNION SELECT trace_id FROM links) ANTI JOIN living USING (trace_id);
