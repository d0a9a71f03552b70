SELECT task_id FROM tasks WHERE starts_with(task_id, $prefix) ORDER BY task_id LIMIT 100;
