"""The demo: a real agent on recorded answers, seen through the whole of agentprof."""
