"""The outer loop: everything around a model and a task that makes the one learn the other.

config      what can be chosen
command     the command line made from it
optimiser   AdamW, warm-up and cosine
parallel    one process or many: data-parallel, or sharded
checkpoint  weights and optimiser in one file, written whole or not at all
evaluate    bits per byte on text, loss and accuracy on tasks
log         one line of JSON a step, and the loss curve drawn from it
step        one step
results     what comes out of a run
loop        a run from beginning to end
"""
