-- An id of many traces names none.
SELECT DISTINCT unnest(traces) FROM (
    SELECT list(DISTINCT trace_id) AS traces FROM call_ids
    WHERE id IN (SELECT unnest($ids::UBIGINT[])) GROUP BY id HAVING count(DISTINCT trace_id) <= $most
);
