"""`minititans grade`: run what students handed in, each isolated, and say what went wrong.

In the order in which a submission passes through them:

    placing.py       which lab a file belongs to, and whose it is
    submissions.py   find the files, and say why some are not graded
    workers.py       hand them to a zygote
    zygote.py        a process that has torch loaded and forks one process for each submission
    sandbox.py       what bubblewrap lets that process see
    isolation.py     its limits, and the two weaker forms of isolation
    notebook.py      inside: run the cells, call the functions
    answers.py       what crosses back: plain numbers and words, checked on arrival
    grade.py         outside again: hand out the work, judge the answers, one row per task
    totals.py        points for each student, per lab and over all
    figure.py        which mistakes the class made
"""
