-- Of an id of many traces the first ones.
SELECT DISTINCT unnest(traces) FROM (
    SELECT min(trace_id, $first) AS traces FROM (
        SELECT DISTINCT id, trace_id FROM call_ids WHERE id IN (SELECT unnest($ids::UBIGINT[]))
    ) GROUP BY id
);
