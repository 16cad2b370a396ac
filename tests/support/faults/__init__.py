"""Faults made on purpose: what is run, what is done to it, and how what it leaves is judged."""
