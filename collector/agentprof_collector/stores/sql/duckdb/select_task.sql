SELECT summary FROM tasks WHERE task_id = $task_id;
