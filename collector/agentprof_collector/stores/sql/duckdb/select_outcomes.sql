SELECT task_id, outcome, score, recorded_ns
FROM outcomes
WHERE task_id IN (SELECT unnest($task_ids::VARCHAR[]))
ORDER BY recorded_ns;
