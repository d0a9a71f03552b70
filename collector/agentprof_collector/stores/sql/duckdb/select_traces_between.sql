SELECT DISTINCT unnest(trace_ids) FROM tasks WHERE start_ns < $end_ns AND end_ns > $start_ns;
