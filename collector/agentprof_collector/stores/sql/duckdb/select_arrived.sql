SELECT trace_id FROM batches WHERE arrived_ns > $arrived_ns
UNION
SELECT trace_id FROM task_traces WHERE task_id IN (SELECT task_id FROM outcomes WHERE arrived_ns > $arrived_ns)
UNION
SELECT substr(task_id, 7) FROM outcomes WHERE arrived_ns > $arrived_ns AND starts_with(task_id, 'trace:')
UNION
SELECT unnest(trace_ids) FROM tasks
WHERE EXISTS (
    FROM energy_windows
    WHERE energy_windows.arrived_ns > $arrived_ns
        AND energy_windows.start_ns < tasks.end_ns AND energy_windows.end_ns > tasks.start_ns
);
