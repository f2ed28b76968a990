"""The stored results and the pages that speak of them agree."""

import json
from pathlib import Path

import pytest

from minititans.experiments.results import by_variant, found_at, load_all, summary, table

RESULTS = Path(__file__).resolve().parents[2] / "results"
KINDS = [path.name for path in sorted((RESULTS / "needle").iterdir()) if path.name in "pk n w"]


def test_every_seed_of_the_default_run_beats_the_ngram_and_is_on_its_page():
    page = (RESULTS / "train" / "README.md").read_text(encoding="utf-8")
    runs = sorted((RESULTS / "train").glob("mac-seed*.json"))
    assert runs
    for path in runs:
        run, seed = json.loads(path.read_text(encoding="utf-8")), path.stem.removeprefix("mac-seed")
        ours = run["bits_per_byte"], run["one_stream_bits_per_byte"]
        assert max(ours) < run["ngram_bits_per_byte"]
        numbers = (*ours, run["ngram_bits_per_byte"])
        assert f"| {seed} | {' | '.join(f'{x:.3f}' for x in numbers)} |" in page


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_needles_is_that_of_its_files(kind):
    found = load_all(RESULTS / "needle" / kind)
    stored = (RESULTS / "needle" / kind / "table.md").read_text(encoding="utf-8")
    assert stored == table(found) + "\n"


def test_passkeys_are_found_as_the_page_says():
    groups = by_variant(load_all(RESULTS / "needle" / "pk"))
    at = {
        (name, length): share for name, runs in groups.items() for length, share, _ in summary(runs)
    }
    for name in ("mac", "mag", "mal", "lmm", "deltanet"):
        assert len(groups[name]) >= 3
        assert at[name, 4096] >= 0.98 and at[name, 16384] >= 0.9
    shown = ("mac", "mag", "lmm", "mal", "deltanet", "gated_deltanet", "mamba2", "lmm-matrix")
    percent = {name: round(100 * at[name, 16384]) for name in shown}
    assert list(percent.values()) == [99, 100, 97, 92, 94, 86, 28, 100]
    further = [at[name, 65536] for name in ("mac", "mag", "lmm", "deltanet")]
    assert [round(100 * share) for share in further] == [96, 100, 88, 73]
    furthest = [at[name, 1048576] for name in ("mac", "lmm", "deltanet", "mag")]
    assert [round(100 * share) for share in furthest] == [88, 79, 60, 52]
    relatives = ("longhorn", "ttt_linear", "ttt_mlp", "linear_attention", "hgrn2", "gla", "retnet")
    others = [at[name, 16384] for name in (*relatives, "rwkv7", "gated_deltanet+swa")]
    assert [round(100 * share) for share in others] == [95, 86, 86, 28, 19, 15, 8, 26, 100]
    assert at["swa", 256] < 0.5
    assert at["transformer", 256] >= 0.95 and at["transformer", 4096] < 0.5
    ablations = [at[f"lmm-{name}", 16384] for name in ("frozen", "forgets", "plain")]
    assert [round(100 * share) for share in ablations] == [95, 86, 65]


@pytest.mark.parametrize(("kind", "needles"), [("n", "numbers"), ("w", "words")])
def test_numbers_and_words_are_found_as_the_page_says(kind, needles):
    found = found_at(load_all(RESULTS / "needle" / kind), 16384)
    relatives = ("deltanet", "gated_deltanet", "mamba2")
    shown = ("mac", "mag", "mal", "lmm", *relatives, "transformer", "swa")
    cells = [f"{100 * found[name][0]:.0f} ± {100 * found[name][1]:.0f}" for name in shown]
    page = (RESULTS / "needle" / "README.md").read_text(encoding="utf-8")
    assert f"| {needles} | {' | '.join(cells)} |" in page.splitlines()
