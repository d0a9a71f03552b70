"""Receives spans, keeps them, and reports on the tasks they add up to."""
