SELECT task_id FROM tasks
WHERE starts_with(task_id, $begin) AND ends_with(task_id, $end) AND length(task_id) >= length($begin) + length($end)
ORDER BY task_id
LIMIT 100;
