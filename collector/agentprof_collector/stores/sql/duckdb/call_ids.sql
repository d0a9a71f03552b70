-- Append-only: in which traces a call has an id, by the hash of the id. A pair may stand here several times.
CREATE TABLE IF NOT EXISTS call_ids (
    id UBIGINT NOT NULL,
    trace_id VARCHAR NOT NULL
);
