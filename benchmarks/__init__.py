"""Speed and memory, measured: `python -m benchmarks`, or `make bench`.

Each line of the table is one entry of the list in `measurements.py`, and most lines are ratios.
A ratio's two sides take turns within one run, so that a busy machine slows both alike: ratios
carry over from machine to machine much better than seconds do.
"""
