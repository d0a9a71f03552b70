"""`agentprof doctor`: what is installed, what would be recorded, and whether it works here."""
