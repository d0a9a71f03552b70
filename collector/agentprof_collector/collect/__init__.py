"""A collector that stays: receives, stores, adds up, and answers questions, until it is stopped."""
