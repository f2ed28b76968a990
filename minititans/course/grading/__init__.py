"""`minititans grade`: run what students handed in, each locked in, and say what went wrong.

In the order in which a submission meets them:

    placing.py       which lab a file belongs to, and whose it is
    submissions.py   find the files, and why some are not graded
    zygote.py        a process that has torch loaded and forks one process for each submission
    isolation.py     what that process may do: limits, and three ways to lock it in
    namespaces.py    the strongest of them, Linux namespaces
    notebook.py      inside: run the cells, call the functions
    answers.py       what crosses back: plain numbers and words, checked on arrival
    grade.py         outside again: hand out the work, judge the answers, one row per task
    totals.py        points for each student, per lab and over all
    figure.py        which mistakes the class made
"""
