INSERT INTO batches
SELECT unnest($trace_ids::VARCHAR[]), $arrived_ns, unnest($spans::INTEGER[]), unnest($bodies::BLOB[]);
