"""What turns the sources in `notebooks/` and `solutions/` into the course that students open.

In the order in which a source meets them:

    build.py           run a `.py` file in the percent format, store the notebook beside it
    nbgrader_cells.py  mark a lab's cells as nbgrader wants them
    claim_list.py      collect what the stored notebooks claim in docs/claims.md
    exercises.py       make exercises/ from solutions/ by cutting holes
    browser.py         open what came out in JupyterLab, in a real browser
    screenshots.py     and take the README's pictures of it

`make notebooks`, `make exercises` and `make screenshots` call these. No student's notebook does.
"""
