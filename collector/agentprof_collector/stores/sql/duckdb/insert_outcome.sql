INSERT INTO outcomes
SELECT $task_id, $outcome, $score, $recorded_ns, $arrived_ns
WHERE NOT EXISTS (
    FROM outcomes
    WHERE task_id = $task_id AND outcome = $outcome AND score IS NOT DISTINCT FROM $score AND recorded_ns = $recorded_ns
);
