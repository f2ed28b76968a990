"""`minititans grade`: run what students handed in, each isolated, and say what went wrong.

In the order in which a submission passes through them:

    placing.py       which lab a file belongs to, and whose it is
    submissions.py   find the files, and say why some are not graded
    workers.py       run them all, several at a time
    isolation.py     start one of them isolated, with its limits, and end all of it
    sandbox.py       what bubblewrap lets it see
    inside.py        inside: a process that waits for the submission's, and repeats it if need be
    notebook.py      the submission's process: run the cells, call the functions
    answers.py       what crosses back: plain numbers and words, checked on arrival
    grade.py         outside again: hand out the work, judge the answers, one row per task
    totals.py        points for each student, per lab and over all
    figure.py        which mistakes the class made
"""
