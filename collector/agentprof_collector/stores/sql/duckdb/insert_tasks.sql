INSERT INTO tasks
SELECT unnest($ids::VARCHAR[]), unnest($names::VARCHAR[]), unnest($outcomes::VARCHAR[]), unnest($starts::BIGINT[]),
    unnest($trace_ids::VARCHAR[][]), unnest($spans::BIGINT[]), unnest($facts::BIGINT[]), unnest($summaries::VARCHAR[])
ON CONFLICT (task_id) DO UPDATE SET
    name = excluded.name, outcome = excluded.outcome, start_ns = excluded.start_ns, trace_ids = excluded.trace_ids,
    spans = excluded.spans, facts = excluded.facts, summary = excluded.summary
WHERE (excluded.spans, excluded.facts) >= (tasks.spans, tasks.facts);
