"""Training: batches, steps, evaluation, and the folder that a run leaves behind."""

import json
import math
import os

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from train_cases import a_text, arguments, assert_same_weights, output_of, start, tiny

from minititans import cli
from minititans.config import ATTENTIONS, VARIANTS
from minititans.model import TitansLM
from minititans.relatives import RELATIVES
from minititans.tasks import IGNORE, load_task
from minititans.training import checkpoint, folder, log, loop
from minititans.training.command import config_from
from minititans.training.config import TrainConfig
from minititans.training.evaluate import bits_per_byte, loss_and_accuracy
from minititans.training.optimiser import make_optimiser
from minititans.training.parallel import World
from minititans.training.results import report
from minititans.training.step import Run, passage, precision, take_step

CPU = World(torch.device("cpu"))


def a_run(config: TrainConfig) -> Run:
    config.folder.mkdir(parents=True, exist_ok=True)
    return loop.begin(config, loop.make_task(config), CPU)[0]


def steps(run: Run, number: int) -> list[dict]:
    """The first steps of a run, as lines of its log."""
    records, states = [], None
    while len(records) < number:
        for part in passage(run.config, run.task, len(records)):
            record, states = take_step(run, len(records) + 1, *part, states)
            records.append(record)
        states = None
    return records


def command(*flags: str) -> TrainConfig:
    """The configuration that a command line asks for."""
    return config_from(cli.build_parser().parse_args(["train", *flags]))


# Steps


def test_a_step_is_what_torch_does_by_hand(tmp_path):
    config = tiny(tmp_path, weight_decay=0.1, clip=0.5, warmup=0, lr=0.01)
    run, twin = a_run(config), a_run(config).model.double()
    run.model.double()  # Adam's first step divides by |gradient|, so rounding would show
    matrices = [p for p in twin.parameters() if p.dim() > 1]
    vectors = [p for p in twin.parameters() if p.dim() == 1]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1, fused=False)
    tokens, targets = passage(config, run.task, 0)[0]
    record, _ = take_step(run, 1, tokens, targets, None)

    loss = F.cross_entropy(twin(tokens)[0].transpose(1, 2), targets)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in twin.parameters()]).norm()
    for p in twin.parameters():
        p.grad *= min(1, 0.5 / norm)
    adam.step()
    assert record["loss"] == pytest.approx(loss.item(), abs=1e-6)
    assert record["gradient_norm"] == pytest.approx(norm.item(), rel=1e-5)
    for mine, wanted in zip(run.model.parameters(), twin.parameters()):
        torch.testing.assert_close(mine, wanted, atol=2e-5, rtol=0)


class Uneven:
    """A task whose rows differ in how many targets count."""

    vocab_size, held_out = 256, None

    def batch(self, size, length, generator):
        tokens = torch.randint(256, (size, length), generator=generator)
        targets = tokens.roll(-1, 1)
        for row in range(size):
            targets[row, row + 1 :] = IGNORE
        return tokens, targets


def test_accumulation_changes_nothing_even_when_rows_count_differently(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "make_task", lambda config: Uneven())
    whole = a_run(tiny(tmp_path, carry=1))
    parts = a_run(tiny(tmp_path, carry=1, accumulate=4))
    for run in (whole, parts):
        run.model.double()  # Adam's first steps divide by |gradient|, so rounding would show
    for one, other in zip(steps(whole, 4), steps(parts, 4)):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-9)


def test_activation_checkpointing_changes_nothing(tmp_path):
    plain, saving = a_run(tiny(tmp_path)), a_run(tiny(tmp_path, model={"checkpoint": True}))
    for one, other in zip(steps(plain, 4), steps(saving, 4)):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-5)


def test_bfloat16_trains_float32_weights_close_to_float32(tmp_path):
    exact, rough = a_run(tiny(tmp_path)), a_run(tiny(tmp_path, precision="bfloat16"))
    losses = [(one["loss"], two["loss"]) for one, two in zip(steps(exact, 4), steps(rough, 4))]
    assert losses[0][0] != losses[0][1]
    assert all(one == pytest.approx(other, abs=0.05) for one, other in losses)
    assert {p.dtype for p in rough.model.parameters()} == {torch.float32}


def test_bfloat16_is_not_used_on_the_cpu_unless_asked_for(tmp_path):
    with precision(tiny(tmp_path), torch.device("cpu")):
        assert not torch.is_autocast_enabled("cpu")
    with precision(tiny(tmp_path, precision="bfloat16"), torch.device("cpu")):
        assert torch.is_autocast_enabled("cpu")


# The last part of a parameter's name, for every variant and relative. "weight" is a matrix in a
# linear layer and in the embedding, and a vector in a norm.
MATRICES = {"weight", "tokens", "taps", "0", "1"}  # 0 and 1: the layers of a memory
VECTORS = {"bias", "D", "log_A", "lower", "erased", "written", "bonus"}


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("variant", [*VARIANTS, *ATTENTIONS, *RELATIVES])
def test_only_matrices_decay(variant, heads, tmp_path):
    model = TitansLM(tiny(tmp_path, model={"variant": variant, "heads": heads}).model)
    decays, stays = make_optimiser(model, tiny(tmp_path, weight_decay=0.1)).param_groups
    assert decays["weight_decay"] == 0.1 and stays["weight_decay"] == 0
    names = {parameter: name for name, parameter in model.named_parameters()}
    norms = {module.weight for module in model.modules() if isinstance(module, torch.nn.RMSNorm)}
    assert {names[p].split(".")[-1] for p in decays["params"]} <= MATRICES
    assert {names[p].split(".")[-1] for p in stays["params"] if p not in norms} <= VECTORS
    assert norms <= set(stays["params"])
    assert len(decays["params"]) + len(stays["params"]) == len(names)


def test_a_passage_depends_on_seed_and_step_alone_and_every_length_comes_up(tmp_path):
    config, task = tiny(tmp_path, lengths=(8, 16, 24), steps=30), load_task("copying")
    first = [passage(config, task, start) for start in range(20)]
    again = [passage(config, task, start) for start in reversed(range(20))][::-1]
    pairs = [pair for one, two in zip(first, again) for pair in zip(one, two)]
    assert all(torch.equal(one, two) for (one, _), (two, _) in pairs)
    assert {tokens.shape[1] // 2 for parts in first for tokens, _ in parts} == {4, 8, 12}
    seeds = [tiny(tmp_path, seed=seed, lengths=(8,)) for seed in (0, 1)]
    assert not torch.equal(*(passage(config, task, 0)[0][0] for config in seeds))


def test_the_steps_of_a_passage_read_on_in_the_same_text(tmp_path):
    config = tiny(tmp_path, carry=5)
    task = loop.make_task(config)
    parts = passage(config, task, 0)
    rows = torch.cat([tokens for tokens, _ in parts], 1)
    assert len(parts) == 5
    for row in rows:
        assert bytes(row.tolist()) in bytes(task.train.tolist())


def test_the_last_passage_ends_with_the_run_and_a_task_starts_over_in_every_step(tmp_path):
    config = tiny(tmp_path, steps=20, carry=6)
    sizes = [len(passage(config, loop.make_task(config), start)) for start in (0, 6, 18)]
    assert sizes == [6, 6, 2]
    config = tiny(tmp_path, steps=20, carry=6, task="needle", lengths=(32,))
    assert len(passage(config, loop.make_task(config), 0)) == 1


def test_a_passage_is_as_long_as_the_text_allows(tmp_path):
    config = tiny(tmp_path, carry=500, steps=1000)
    task = loop.make_task(config)
    fitted = loop.fit_to(task, config, CPU)
    assert fitted.carry == (len(task.train) - 1) // max(config.lengths) < 500
    assert len(passage(fitted, task, 0)) == fitted.carry


def test_a_text_shorter_than_one_sequence_is_refused_before_the_first_step(tmp_path):
    config = tiny(tmp_path, lengths=(100_000,))
    with pytest.raises(ValueError, match="lengths: got up to 100000, expected less than the"):
        loop.train(config)
    assert not config.folder.exists()


def test_mac_to_the_letter_is_refused_on_text_before_the_first_step_and_learns_a_task(tmp_path):
    """Scores and samples go on inside a segment, which it cannot; a task's rows are read whole."""
    config = tiny(tmp_path, model={"literal": True})
    with pytest.raises(ValueError, match="literal: got True, expected False to train on text"):
        loop.train(config)
    assert not config.folder.exists()
    config = tiny(tmp_path, model={"literal": True}, task="copying")
    assert loop.train(config)["steps"] == config.steps


def test_a_step_reads_on_with_the_memory_that_the_step_before_left(tmp_path):
    run = a_run(tiny(tmp_path, lr=1e-30, weight_decay=0.0))  # weights stay what they are
    (first, _), (second, wanted) = parts = passage(run.config, run.task, 0)
    logits, _ = run.model(torch.cat([first, second], 1))
    expected = F.cross_entropy(logits[:, first.shape[1] :].transpose(1, 2), wanted).item()
    _, states = take_step(run, 1, *parts[0], None)
    record, _ = take_step(run, 2, *parts[1], states)
    assert record["loss"] == pytest.approx(expected, abs=1e-5)
    assert take_step(run, 2, *parts[1], None)[0]["loss"] != pytest.approx(expected, abs=1e-5)


def test_the_rows_of_a_task_are_whole(tmp_path):
    config = tiny(tmp_path, task="copying", carry=4)
    [(tokens, _)] = passage(config, loop.make_task(config), 0)
    half = (tokens.shape[1] - 1) // 2
    assert torch.equal(tokens[:, :half], tokens[:, -half:])


# Evaluation


def test_a_model_that_knows_nothing_needs_eight_bits(tmp_path):
    model = a_run(tiny(tmp_path)).model
    torch.nn.init.zeros_(model.embed.weight)
    assert bits_per_byte(model, torch.arange(100, dtype=torch.uint8)) == pytest.approx(8)


@pytest.mark.parametrize("variant", [*VARIANTS, "swa"])
def test_reading_in_pieces_gives_the_bits_of_one_pass(tmp_path, variant):
    model = a_run(tiny(tmp_path, model={"variant": variant})).model
    text = torch.randint(256, (90,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    logits, _ = model(text[None, :-1].long())
    wanted = F.cross_entropy(logits[0], text[1:].long()).item() / math.log(2)
    assert bits_per_byte(model, text, piece=7) == pytest.approx(wanted, abs=1e-5)


def test_lanes_are_read_one_by_one(tmp_path):
    model = a_run(tiny(tmp_path)).model
    text = torch.randint(256, (91,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    alone = [bits_per_byte(model, text[start : start + 31]) for start in (0, 30, 60)]
    assert bits_per_byte(model, text, lanes=3) == pytest.approx(sum(alone) / 3, abs=1e-5)


def test_accuracy_counts_only_targets_that_count():
    class Copier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, tokens):  # says what stood half a row before, which is right
            half = (tokens.shape[1] - 1) // 2
            return F.one_hot(tokens.roll(half, 1), 64) * 50 * self.scale, None

    loss, accuracy = loss_and_accuracy(Copier(), load_task("copying"), length=9)
    assert (round(loss, 6), accuracy) == (0, 1)


# A run and its folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that was never stopped, and what it returned."""
    config = tiny(tmp_path_factory.mktemp("finished"))
    return config, loop.train(config)


def test_a_run_leaves_its_results_behind(finished):
    config, result = finished
    assert {file.name for file in config.folder.iterdir()} == set(folder.OWN)
    assert json.loads((config.folder / "result.json").read_text()) == result
    assert (config.folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert len(result["prompt"]) > 100 and result["generated"]
    assert "Bits per byte" in report(result, "here")


def test_the_log_has_a_line_for_every_step_and_evaluation(finished):
    config, result = finished
    records = log.read(config.folder / "log.jsonl")
    assert [each["step"] for each in records if "loss" in each] == list(range(1, 9))
    assert [each["step"] for each in records if "bits_per_byte" in each] == [3, 6, 8]
    assert records[-1]["bits_per_byte"] == result["bits_per_byte"]
    assert records[0].keys() >= {"lr", "gradient_norm", "length", "tokens", "tokens_per_second"}


def test_the_saved_model_is_the_one_that_was_measured(finished):
    config, result = finished
    model = TitansLM.load(config.folder / "model.safetensors")
    held_out = loop.make_task(config).held_out
    assert bits_per_byte(model, held_out[: config.eval_bytes]) == pytest.approx(
        result["bits_per_byte"], abs=1e-6
    )


def test_the_same_command_again_trains_nothing(finished, monkeypatch):
    config, result = finished
    before = (config.folder / "log.jsonl").read_bytes()
    monkeypatch.setattr(loop, "take_step", None)
    assert loop.train(config) == result
    assert (config.folder / "log.jsonl").read_bytes() == before


def test_a_small_model_learns(tmp_path):
    text = tmp_path / "abc.txt"
    text.write_text("abcdefgh" * 200)
    config = tiny(tmp_path, data=str(text), steps=60, lr=0.02, eval_every=0, save_every=0)
    assert loop.train(config)["bits_per_byte"] < 0.5


@pytest.mark.parametrize("name", ["copying", "needle"])
def test_a_task_is_trained_by_its_name(tmp_path, name):
    result = loop.train(tiny(tmp_path, task=name, lengths=(32, 48), steps=2))
    assert result["held_out_loss"] > 0 and 0 <= result["held_out_accuracy"] <= 1
    assert "targets right" in report(result, "here")


# Stopping and going on. tests/training/test_train_kill.py does it with SIGKILL.


class Stopped(Exception):
    pass


def stop_at(monkeypatch, step: int) -> None:
    """Let the next training raise `Stopped` in place of taking a step."""

    def take_or_stop(run, number, *arguments):
        if number == step:
            raise Stopped
        return take_step(run, number, *arguments)

    monkeypatch.setattr(loop, "take_step", take_or_stop)


@pytest.mark.parametrize("variant", ["mac", "mag", "swa+deltanet"])
def test_a_stopped_run_ends_with_the_weights_of_one_that_never_stopped(
    tmp_path, monkeypatch, variant
):
    options = {"model": {"variant": variant}, "eval_every": 5, "sample": 0}
    never, stopped = (tiny(tmp_path, name, **options) for name in ("never", "stopped"))
    loop.train(never)
    for step in (1, 6, 8):
        stop_at(monkeypatch, step)
        with pytest.raises(Stopped):
            loop.train(stopped)
    monkeypatch.undo()
    torch.rand(3)  # whatever happened to the global generator in between
    loop.train(stopped)
    assert_same_weights(never, stopped)
    lines = [log.read(each.folder / "log.jsonl") for each in (never, stopped)]
    for record in (*lines[0], *lines[1]):
        record.pop("tokens_per_second", None)
    assert lines[0] == lines[1]


@pytest.mark.parametrize("where", ["save_file", "fsync", "replace"])
def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path, monkeypatch, where):
    run = a_run(tiny(tmp_path))
    path = tmp_path / "checkpoint.safetensors"
    steps(run, 2)
    checkpoint.save_checkpoint(path, run.model, run.optimiser, {"step": 1, "seconds": 0.0}, CPU)
    before = path.read_bytes()

    def fails(*arguments):  # leaves half a file, as a full disk would
        if where == "save_file":
            arguments[1].write_bytes(before[: len(before) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors.torch if where == "save_file" else os, where, fails)
    steps(run, 2)
    with pytest.raises(OSError):
        checkpoint.save_checkpoint(path, run.model, run.optimiser, {"step": 2, "seconds": 0.0}, CPU)
    monkeypatch.undo()
    assert path.read_bytes() == before and list(tmp_path.glob("*unfinished")) == []
    assert checkpoint.load_checkpoint(path, run.model, run.optimiser)["step"] == 1


def test_half_a_line_in_the_log_is_forgotten(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    log.cut(path, 2, lines=2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_a_folder_with_another_run_is_refused_and_left_alone(finished):
    config, _ = finished
    files = {file: file.read_bytes() for file in config.folder.iterdir()}
    other = TrainConfig.from_json(config.to_json() | {"lr": 0.5, "seed": 3})
    with pytest.raises(ValueError, match=r"lr: was 0\.004, now 0\.5; seed: was 0, now 3"):
        loop.train(other)
    assert files == {file: file.read_bytes() for file in config.folder.iterdir()}


def test_a_run_whose_text_has_changed_is_refused(tmp_path):
    config = tiny(tmp_path, steps=1)
    loop.train(config)
    a_text(tmp_path).write_text(a_text(tmp_path).read_text().replace("and", "end", 1))
    with pytest.raises(ValueError, match="the data itself has changed"):
        loop.train(config)


@pytest.mark.skipif(folder.fcntl is None, reason="locks need fcntl, which Windows has not")
def test_two_processes_do_not_train_in_one_folder(tmp_path):
    config = tiny(tmp_path)
    with (
        folder.alone_in(config.folder),
        pytest.raises(ValueError, match="another process is train"),
    ):
        loop.train(config)
    assert not config.folder.exists()
    loop.train(config)  # the lock is gone


@pytest.mark.parametrize("wrong", [["--heads", "3"], ["--set", "theta_start=abc"]])
def test_an_impossible_model_leaves_no_folder_behind(wrong, tmp_path, capsys):
    assert cli.main(["train", "--runs", str(tmp_path / "runs"), "--steps", "1", *wrong]) == 2
    assert "minititans train: " in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["train", "--runs", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err


def test_a_folder_of_something_else_is_refused_even_fresh(tmp_path):
    config = tiny(tmp_path)
    config.folder.mkdir()
    (config.folder / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds files that do not belong to a run"):
        loop.train(config, fresh=True)
    assert (config.folder / "thesis.txt").exists()


def test_fresh_begins_again(tmp_path):
    loop.train(tiny(tmp_path, steps=1, seed=1))
    loop.train(tiny(tmp_path, steps=1, seed=2), fresh=True)
    loop.train(tiny(tmp_path, "other", steps=1, seed=2))
    assert_same_weights(tiny(tmp_path), tiny(tmp_path, "other"))


@pytest.mark.parametrize("variant", ["transformer", "mac"])
def test_numbers_that_are_not_finite_end_the_run_with_advice(tmp_path, monkeypatch, variant):
    def begin_badly(*arguments, begin=loop.begin):
        run, progress = begin(*arguments)
        run.model.blocks[0].ff.down.weight.data *= math.inf
        return run, progress

    monkeypatch.setattr(loop, "begin", begin_badly)
    with pytest.raises(ValueError, match=r"lr: got 0\.004.* no longer finite; try a smaller --lr"):
        loop.train(tiny(tmp_path, model={"variant": variant}))


# The command line


def test_the_command_line_says_everything_a_configuration_says(tmp_path):
    config = tiny(tmp_path, accumulate=2, seed=5, model={"variant": "lmm"})
    assert command(*arguments(config)) == config
    assert TrainConfig.from_json(config.to_json()) == config


def test_resume_takes_the_options_of_the_folder(finished):
    config, _ = finished
    where = ["--runs", config.runs, "--name", config.name]
    assert command(*where, "--resume") == config
    assert command(*where, "--resume", "--lr", "1").lr == 1  # and this the folder will refuse


def test_resume_needs_a_run(tmp_path, capsys):
    assert cli.main(["train", "--runs", str(tmp_path), "--resume"]) == 2
    assert "there is no run in" in capsys.readouterr().err


def test_a_preset_has_the_size_of_the_paper_and_the_vocabulary_of_bytes():
    model = command("--preset", "170m", "--variant", "mag").model
    assert (model.dim, model.layers, model.vocab_size, model.variant) == (768, 12, 256, "mag")


def test_runs_on_other_data_have_other_folders():
    assert command().folder.name == "mac"
    assert command("--task", "needle").folder.name == "mac-needle"
    assert command("--data", "some/book.txt").folder.name == "mac-book"


SHORT = ["--quiet", "--steps=1", "--eval-bytes=100", "--sample=0"]  # should it train after all
BAD_NAMES = ["..", ".", "", "a/b", "/tmp", "../other", "a\\b"]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--lengths", "64,many"], "lengths: got '64,many', expected numbers such as"),
        (
            ["--lengths", "64,0"],
            "lengths: got (64, 0), expected several numbers, each a",
        ),
        (["--steps=0"], "steps: got 0, expected a whole number of at least 1"),
        (["--lr", "0"], "lr: got 0.0, expected a finite number above 0 and at most 1"),
        (["--lr", "1e10"], "lr: got 10000000000.0, expected a finite number above 0 and at most 1"),
        (["--lr", "nan"], "lr: got nan, expected a finite number above 0"),
        (["--beta2", "1"], "beta2: got 1.0, expected a finite number of at least 0 and below 1"),
        (
            ["--weight-decay", "inf"],
            "weight_decay: got inf, expected a finite number",
        ),
        (["--seed", str(2**70)], "seed: got 1180591620717411303424, expected a whole number"),
        (["--preset", "1b"], "preset: got '1b', expected one of 170m, 340m, 400m, 760m"),
        (["--device", "meta"], "device: got 'meta', expected auto, cpu, cuda"),
        (["--fresh", "--previous"], "previous: got fresh as well"),
        (["--previous"], "there is no"),
        (["--batch", "6", "--accumulate", "4"], "batch: got 6, expected a multiple of accumulate"),
        (["--set", "deep=3"], "set: got 'deep=3', expected FIELD=VALUE"),
        (
            ["--precision", "fp4"],
            "precision: got 'fp4', expected one of 'auto', 'float32'",
        ),
        (["--task", "chess"], "task: got 'chess', expected one of copying, needle, text"),
        (["--data", "nowhere"], "data: nowhere does not exist; expected a file or a folder"),
        (["--data", "a", "--task", "b"], "data: got task as well, expected one source of data"),
        *((["--name", name], "expected the name of one folder") for name in BAD_NAMES),
        (["--device", "abacus"], "device: got 'abacus', expected auto, cpu, cuda"),
        (["--shard"], "shard: needs several processes: torchrun"),
        (["--heads", "3"], "dim: got 128, expected a multiple of heads"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, capsys, flags, message):
    assert cli.main(["train", "--runs", str(tmp_path), *SHORT, *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_help_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from minititans.cli import main; "
    out, _ = output_of(start("-c", code + "main(['train', '--help'])"))
    assert "--lengths" in out and "--resume" in out
