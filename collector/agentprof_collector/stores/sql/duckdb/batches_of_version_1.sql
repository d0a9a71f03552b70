-- When they arrived was not kept: before everything that comes now.
INSERT INTO batches
SELECT trace_id, 0, count(*), '[' || string_agg(body, ',') || ']'
FROM (SELECT trace_id, body, (row_number() OVER (PARTITION BY trace_id) - 1) // $spans AS piece FROM spans)
GROUP BY trace_id, piece;
