"""One file per experiment: a function from a configuration to a table of numbers."""
