INSERT INTO spans
SELECT unnest($trace_ids::VARCHAR[]), unnest($span_ids::VARCHAR[]), unnest($starts::BIGINT[]), unnest($bodies::VARCHAR[]);
