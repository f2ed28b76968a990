"""The stored results and the pages that speak of them agree."""

import json
from pathlib import Path

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
