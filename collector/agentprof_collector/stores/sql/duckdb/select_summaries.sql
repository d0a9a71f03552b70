SELECT rowid, summary FROM tasks WHERE rowid IN (SELECT unnest($places::BIGINT[]));
