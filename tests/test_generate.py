"""`minititans generate`, and the switches of the memory that it and the notebooks use."""

import io
import subprocess
import sys

import pytest
import torch

from minititans import NeuralMemory, TitansConfig, TitansLM
from minititans.cli import main
from minititans.instruments import switch_memory, watch_memory

SMALL = {"dim": 16, "layers": 2, "heads": 2, "window": 4, "segment": 4, "chunk_size": 3}
PROMPT = "a text of some length"


def trained(variant="mac", **changes) -> TitansLM:
    """A model whose memory has something to say: of random weights throughout."""
    torch.manual_seed(0)
    model = TitansLM(TitansConfig(variant, **SMALL | changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.double().eval()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "results" / "models").mkdir(parents=True)
    for place in ("runs/mine/model", "results/models/stored", "file"):
        trained().save(f"{place}.safetensors")
    return tmp_path


@pytest.mark.parametrize("name", ["mine", "runs/mine", "file.safetensors", "stored"])
def test_it_goes_on_from_the_prompt_as_the_model_does(folder, capsys, name):
    options = ["--prompt", PROMPT, "--tokens", "12", "--temperature", "0.5", "--top-k", "9"]
    assert main(["generate", name, *options, "--seed", "3"]) == 0
    prompt = torch.tensor([list(PROMPT.encode())])
    tokens = trained().generate(prompt, 12, temperature=0.5, top_k=9, seed=3)[0]
    assert capsys.readouterr().out == bytes(tokens.tolist()).decode(errors="replace") + "\n"


def test_without_its_memory_it_writes_something_else(folder, capsys):
    options = ["--prompt", PROMPT, "--tokens", "40", "--seed", "0"]
    texts = []
    for switch in ([], ["--no-memory"], []):
        assert main(["generate", "mine", *options, *switch]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[2] != texts[1]
    model, prompt = trained(), torch.tensor([list(PROMPT.encode())])
    with switch_memory(model, writing=False):
        expected = model.generate(prompt, 40, temperature=0.8, seed=0)[0]
    assert texts[1] == bytes(expected.tolist()).decode(errors="replace") + "\n"


def test_letters_of_several_bytes_come_whole(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("größer ∂".encode())))
    assert main(["generate", "mine", "--prompt", "-", "--tokens", "0"]) == 0
    assert capsys.readouterr().out == "größer ∂\n"


def test_a_prompt_need_not_be_valid_utf8(folder, capsys):
    assert main(["generate", "mine", "--prompt", "a\udcff", "--tokens", "0"]) == 0
    assert capsys.readouterr().out == "a�\n"  # as Python hands over the byte 255


def test_a_closed_standard_input_is_told_in_words(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert main(["generate", "mine", "--prompt", "-"]) == 2
    assert "prompt: got -, expected a text on standard input" in capsys.readouterr().err


def test_text_is_shown_while_it_is_written(folder):
    """The first letters are there long before a text of this length could be."""
    command = [sys.executable, "-m", "minititans.cli", "generate", "mine", "--tokens", "1000000"]
    with subprocess.Popen([*command, "--prompt", "abc"], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(10).startswith(b"abc")
        process.stdout.close()  # as `head` does
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nobody"],
            "model: got 'nobody', expected a run or a saved model; there are mine, stored",
        ),
        ([""], "model: got '', expected a run or a saved model; there are mine, stored"),
        (["runs"], "model: runs has no model.safetensors; expected the folder of a run that has"),
        (["mine", "--prompt", ""], "prompt: got no text, expected at least one letter"),
        (["mine", "--tokens", "-1"], "--tokens: got -1, expected a whole number of at least 0"),
        (["mine", "--temperature", "-1"], "--temperature: got -1.0, expected a finite number of"),
        (["mine", "--top-k", "0"], "--top-k: got 0, expected a whole number of at least 1\n"),
        (["mine", "--seed", "-1"], "--seed: got -1, expected a whole number of at least 0"),
        (["window", "--no-memory"], "model: this TitansLM has no memory to switch"),
        (["few"], "was not trained on text: its vocabulary has 11 tokens, expected 256, one per"),
        (["notes.txt"], "notes.txt is not a saved TitansLM"),
    ],
)
def test_wrong_options_are_told_in_words(folder, capsys, words, message):
    TitansLM(TitansConfig("swa", **SMALL)).save("results/models/window.safetensors")
    TitansLM(TitansConfig("mac", vocab_size=11, **SMALL)).save("runs/few.safetensors")
    (folder / "notes.txt").write_text("not a model")
    words = [word.replace("few", "runs/few.safetensors") for word in words]
    TitansLM(TitansConfig("mac", vocab_size=64, **SMALL)).save(
        "results/models/needle-a.safetensors"
    )
    if "there are" in message:
        (folder / "results/models/window.safetensors").unlink()
    assert main(["generate", "--prompt", "a", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("minititans generate: ") and message in printed.err


# ---------------------------------------------------------------------------- the switches


def no_writes(model):
    return switch_memory(model, writing=False)


def no_reads(model):
    return switch_memory(model, reading=False)


@pytest.mark.parametrize("backend", ["sequential", "chunked", "fast"])
@pytest.mark.parametrize("gates", ["token", "chunk"])
def test_a_memory_that_does_not_write_answers_from_where_it_is(backend, gates):
    torch.manual_seed(0)
    memory = NeuralMemory(8, 2, chunk_size=4, backend=backend, gates=gates, conv=0).double()
    x = torch.randn(2, 11, 8, dtype=torch.float64)
    _, state = memory(x[:, :6])  # with momentum still on its way
    with switch_memory(memory, writing=False):
        y, after = memory(x[:, 6:], state)
    for name in ("weights", "momentum", "chunk_start"):
        for found, expected in zip(vars(after)[name], vars(state)[name], strict=True):
            assert torch.equal(found, expected), name
    assert (after.position, after.gates) == (state.position, state.gates)
    torch.testing.assert_close(y, memory.read(x[:, 6:], state.weights))
    assert (memory(x[:, 6:], state)[0] - y).abs().max() > 1e-6  # afterwards it writes again


def test_a_memory_that_does_not_read_answers_zero_and_still_learns():
    torch.manual_seed(0)
    memory = NeuralMemory(8, 2).double()
    x = torch.randn(2, 11, 8, dtype=torch.float64)
    with switch_memory(memory, reading=False):
        y, state = memory(x)
        assert not y.any() and not memory.read(x, state.weights).any()
    assert torch.equal(state.weights[-1], memory(x)[1].weights[-1]) and state.weights[-1].any()


@pytest.mark.parametrize("variant", ["mac", "mag", "mal", "lmm"])
def test_without_writing_no_token_reaches_beyond_the_window(variant):
    """What a memory is for: with it the first token matters at the last, without it does not."""
    model = trained(variant, layers=1, conv=0)
    tokens = torch.randint(256, (1, 21))
    changed = tokens.clone()
    changed[0, 0] = (changed[0, 0] + 1) % 256
    far = slice(12, None)
    assert (model(tokens)[0] - model(changed)[0])[:, far].abs().max() > 1e-9
    with switch_memory(model, writing=False):
        assert (model(tokens)[0] - model(changed)[0])[:, far].abs().max() == 0


@pytest.mark.parametrize("variant", ["mag", "mal", "lmm"])
def test_persistent_tokens_are_written_in_any_case(variant):
    model = trained(variant, layers=1)
    with switch_memory(model, writing=False):
        _, state = model(torch.randint(256, (1, 5)))
    block = model.blocks[0].mixer
    _, start = block.persistent.read_into(block.memory, 1)
    found = state.blocks[0] if variant == "lmm" else state.blocks[0].memory
    assert torch.equal(found.weights[-1], start.weights[-1]) and start.weights[-1].any()


@pytest.mark.parametrize("variant", ["mac", "mag", "lmm+ttt_linear"])
@pytest.mark.parametrize("instrument", [watch_memory, no_writes, no_reads])
@pytest.mark.parametrize("inside", [True, False])
def test_a_model_that_recomputes_its_blocks_shows_and_learns_the_same(variant, instrument, inside):
    """Wherever the backward pass comes: its oracle is the model that keeps its activations."""
    tokens, traces, gradients = torch.arange(18).view(2, 9), [], []
    for checkpoint in (False, True):
        model = trained(variant, checkpoint=checkpoint)
        with instrument(model) as seen:
            total = model(tokens)[0].square().mean()
            if inside:
                total.backward()
        if not inside:
            total.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
        traces.append(seen if instrument is watch_memory else None)
    torch.testing.assert_close(gradients[1], gradients[0])
    if instrument is watch_memory:
        counts = [{name: len(found) for name, found in seen.items()} for seen in traces]
        assert counts[0] == counts[1] and all(counts[0].values())


def test_blocks_are_recomputed_when_no_instrument_is_in_use():
    model = trained("mag", checkpoint=True)
    calls = []
    model.blocks[0].mixer.memory.register_forward_hook(lambda *_: calls.append(1))

    def count():
        calls.clear()
        model(torch.arange(9)[None])[0].sum().backward()
        return len(calls)

    with watch_memory(model):
        kept = count()
    assert count() == 2 * kept


def test_an_error_inside_switches_the_memory_on_again():
    memory = NeuralMemory(8, 2)
    with pytest.raises(ZeroDivisionError), switch_memory(memory, reading=False, writing=False):
        raise ZeroDivisionError
    assert memory.reading and memory.writing
    with (
        pytest.raises(ValueError, match="writing: got 1, expected"),
        switch_memory(memory, writing=1),
    ):
        pass
