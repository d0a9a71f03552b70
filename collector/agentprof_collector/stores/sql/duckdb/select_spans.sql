SELECT body FROM spans WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
