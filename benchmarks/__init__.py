"""Speed and memory, measured: `python -m benchmarks`, or `make bench`.

Each line of the table is one entry of the list in `measurements.py`, and most lines are a ratio.
A ratio's two sides take turns within one run, so that a busy machine slows both alike: the
ratios travel from machine to machine much better than seconds do.
"""
