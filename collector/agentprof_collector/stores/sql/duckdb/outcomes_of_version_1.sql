INSERT INTO outcomes SELECT task_id, outcome, score, recorded_ns, 0 FROM outcomes_1;
