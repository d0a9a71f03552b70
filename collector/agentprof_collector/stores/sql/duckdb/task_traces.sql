-- Append-only: in which traces a task has spans. A pair may stand here several times.
CREATE TABLE IF NOT EXISTS task_traces (
    task_id VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL
);
