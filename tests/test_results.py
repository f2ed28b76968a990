"""The stored results and the pages that speak of them agree."""

import json
from pathlib import Path

from minititans.experiments.results import load_all, table

RESULTS = Path(__file__).resolve().parent.parent / "results"


def test_every_seed_of_the_default_run_beats_the_ngram_and_stands_on_its_page():
    page = (RESULTS / "train" / "README.md").read_text(encoding="utf-8")
    runs = sorted((RESULTS / "train").glob("mac-seed*.json"))
    assert len(runs) >= 3
    for seed, path in enumerate(runs):
        run = json.loads(path.read_text(encoding="utf-8"))
        ours = run["bits_per_byte"], run["one_stream_bits_per_byte"]
        assert max(ours) < run["ngram_bits_per_byte"]
        numbers = (*ours, run["ngram_bits_per_byte"])
        assert f"| {seed} | {' | '.join(f'{x:.3f}' for x in numbers)} |" in page


def test_the_table_of_needles_is_that_of_its_files():
    found = load_all(RESULTS / "needle" / "pk")
    assert (RESULTS / "needle" / "pk" / "table.md").read_text(encoding="utf-8") == table(
        found
    ) + "\n"


def test_the_page_of_needles_speaks_of_the_numbers_in_the_table():
    page = (RESULTS / "needle" / "README.md").read_text(encoding="utf-8")
    at = {}
    for result in load_all(RESULTS / "needle" / "pk"):
        for reading in result.readings:
            at.setdefault((result.variant, reading.length), []).append(reading.accuracy)
    at = {key: round(100 * sum(shares) / len(shares)) for key, shares in at.items()}
    for text in (
        f"the LMM\n  {at['lmm', 1024]} % and the MAG {at['mag', 1024]} %",
        f"MAG finds {at['mag', 4096]} %, MAC {at['mac', 4096]} % and LMM {at['lmm', 4096]} %",
        f"TTT-Linear {at['ttt_linear', 16384]} % and TTT-MLP\n  {at['ttt_mlp', 16384]} %",
        f"finds {at['transformer', 256]} % at 256",
    ):
        assert text in page
    for keen in ("deltanet", "gated_deltanet", "longhorn"):
        assert at[keen, 16384] == 100
    between = [at[name, 16384] for name in ("linear_attention", "hgrn2", "rwkv7", "mamba2")]
    assert f"between {min(between)} and {max(between)} % there" in page
