-- In which traces a task has spans.
CREATE TABLE IF NOT EXISTS task_traces (
    task_id String,
    trace_id String
) ENGINE = ReplacingMergeTree ORDER BY (task_id, trace_id)
