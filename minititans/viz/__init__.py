"""Figures, pure functions from numbers to a drawing or a matplotlib figure, and the widgets."""
