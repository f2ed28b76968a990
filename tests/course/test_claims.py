"""A claim is checked when it is made, and listed where readers look."""

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from minititans.course import ClaimError, claim, does_not_reproduce
from minititans.course.making.claim_list import Claim, claims, page, write


def test_a_true_claim_prints_its_sentence_and_what_it_belongs_to(capsys):
    claim("the memory learns", True, "ours")
    claim("it forgets", torch.tensor(1.0) > 0, "equation (13)")
    claim("it is quick", np.float64(1) < 2, "section 3.2")
    assert capsys.readouterr().out.splitlines() == [
        "✓ the memory learns [ours]",
        "✓ it forgets [equation (13)]",
        "✓ it is quick [section 3.2]",
    ]


def test_a_false_claim_stops_the_notebook_and_names_the_sentence(capsys):
    with pytest.raises(ClaimError, match="the moon is cheese"):
        claim("the moon is cheese", False, "ours")
    with pytest.raises(AssertionError, match="depth helps"):
        does_not_reproduce("depth helps", torch.tensor(False), "figure 7", because="it is small")
    assert capsys.readouterr().out == ""


def test_what_does_not_reproduce_says_so_and_why(capsys):
    does_not_reproduce("depth helps", True, "figure 7", because="the task is linear")
    assert capsys.readouterr().out.splitlines() == [
        "✗ not at this size: depth helps [figure 7]",
        "  because the task is linear",
    ]


@pytest.mark.parametrize("condition", [0.3, float("nan"), None, "yes", torch.ones(2) > 0, [True]])
def test_what_is_not_true_or_false_is_refused(condition):
    with pytest.raises(TypeError, match="condition"):
        claim("a sentence", condition, "ours")


@pytest.mark.parametrize("sentence", ["", " ", "two\nlines", "ends in [a bracket]"])
def test_a_sentence_that_the_list_could_not_read_is_refused(sentence):
    with pytest.raises(ValueError, match="sentence"):
        claim(sentence, True, "ours")


@pytest.mark.parametrize("place", ["", " ", "the paper", "equation 13", "Ours", "figure"])
def test_a_claim_that_belongs_nowhere_is_refused(place):
    with pytest.raises(ValueError, match="belongs_to"):
        claim("a sentence", True, place)
    with pytest.raises(ValueError, match="belongs_to"):
        does_not_reproduce("a sentence", True, place, because="it is small")


def printed(function, *arguments, **options) -> str:
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda line: lines.append(line + "\n"))
        function(*arguments, **options)
    return "".join(lines)


def test_the_list_holds_what_was_claimed(tmp_path):
    text = printed(claim, "it falls | by half", True, "equation (8)") + "something else\n"
    text += printed(claim, "f(x) [sic] holds", True, "ours")
    text += printed(does_not_reproduce, "depth helps", True, "figure 7", because="it is small")
    cells = [new_markdown_cell("# A title\n\nwords"), new_code_cell("")]
    cells[1].outputs = [new_output("stream", text=text)]
    notebook = new_notebook(cells=cells)
    assert claims(notebook) == [
        Claim("it falls | by half", "equation (8)"),
        Claim("f(x) [sic] holds", "ours"),
        Claim("depth helps", "figure 7", holds=False, because="it is small"),
    ]

    (tmp_path / "notebooks").mkdir()
    nbformat.write(notebook, tmp_path / "notebooks" / "07_title.ipynb")
    write(tmp_path)
    written = (tmp_path / "docs" / "claims.md").read_text(encoding="utf-8")
    assert written == page(tmp_path)
    link = "[07 A title](../notebooks/07_title.ipynb)"
    assert f"## {link}" in written
    assert r"| it falls \| by half | equation (8) |" in written
    absent = written.split("does not reproduce")[1]
    assert f"| depth helps | figure 7 | {link} | it is small |" in absent


def test_a_page_without_gaps_says_so(tmp_path):
    assert "Nothing that the notebooks so far have looked for" in page(tmp_path)
