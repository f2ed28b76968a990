"""Figures: pure functions from numbers to a matplotlib figure."""
