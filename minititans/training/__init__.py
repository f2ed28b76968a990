"""The outer loop: everything it takes for a model to learn a task.

config      what can be chosen
options     the type and range of each, in words
command     the command line made from it, which `__main__` and `minititans train` run
optimiser   AdamW, warm-up and cosine
parallel    one process or many: data-parallel, or sharded
checkpoint  weights and optimiser in one file; the last two are kept
folder      the files of a run, and only those
evaluate    bits per byte on text, loss and accuracy on tasks
log         one line of JSON per step, and the loss curve drawn from it
step        one step
results     what comes out of a run
loop        a run from beginning to end
"""
