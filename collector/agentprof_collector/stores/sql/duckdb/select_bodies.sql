SELECT body FROM batches WHERE rowid IN (SELECT unnest($places::BIGINT[]));
