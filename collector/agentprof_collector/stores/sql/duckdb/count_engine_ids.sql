SELECT count(*) FROM engine_ids;
