"""Measures the accelerators of an endpoint: their counters of energy, and how many requests its engine works on."""
