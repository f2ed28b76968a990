"""Inside `check`: call a student's function, compare what it did, say in words what differs.

In the order in which an answer passes through them:

    limit.py     how long a function may run, and how it is stopped
    guard.py     what it sets is put back, and it cannot end the notebook
    rules.py     what a task may forbid: autograd, loops
    record.py    what one call did, as plain data
    errors.py    a student's values and errors in words
    attempt.py   call the function on every input and fill in the record
    words.py     what differs, in the student's terms
    patterns.py  where it differs: which inputs, which tokens
    judge.py     the verdict: right, or which mistake it looks like

`minititans.course.checks` is what notebooks call; the grader uses the same parts.
"""
