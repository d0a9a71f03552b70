-- In which traces a task has spans.
CREATE TABLE IF NOT EXISTS task_traces (
    task_id VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL
);
