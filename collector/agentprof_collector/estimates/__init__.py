"""Estimates of what a wait for the first token was made of, where the server says nothing about it.

A model over what clients saw, with an interval; never part of a timeline. `waits.py` holds the method,
`docs/estimates.md` how far it can be trusted.
"""
