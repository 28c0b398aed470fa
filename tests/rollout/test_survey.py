"""``agentgym-rl templates``: how the template of a model, or of each file of a folder, fits episodes."""

import pytest

pytest.importorskip("verl")

from chats import CHATML, GPT_OSS, MISTRAL, NEMO, chat_of
from transformers import LlamaConfig
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.rollout.survey import survey


def templates(place):
    result = CliRunner().invoke(app, ["templates", str(place)])
    return result.exit_code, result.output


def test_files_of_a_folder_are_a_table(tmp_path):
    files = {"ours@qwen2": CHATML, "theirs@llama": CHATML, "nemo": NEMO, "oss@gpt_oss": GPT_OSS}
    for name, template in files.items():
        (tmp_path / f"{name}.jinja").write_text(template)
    code, output = templates(tmp_path)
    assert code == 1, output
    rows = output.splitlines()[2:]
    assert rows[0].startswith("| nemo | repaired, style=agentgym only | an observation only after a response; in the")
    assert rows[1].startswith("| oss | refused | ") and "final" in rows[1]
    assert rows[2:] == ["| ours | as is |  |", r"| theirs | repaired | '\n' after a response |"]
    (tmp_path / "oss@gpt_oss.jinja").unlink()
    assert templates(tmp_path)[0] == 0


def test_a_space_before_responses_fits_a_tokenizer_of_words_with_their_space(tmp_path):
    spaced = MISTRAL.replace("else one.content", "else ' ' + one.content")
    assert spaced != MISTRAL
    (tmp_path / "spaced.jinja").write_text(spaced)
    (fit,) = survey(str(tmp_path))
    assert fit.wordings == ("compact", "agentgym")


def test_a_model_has_its_own_tokenizer_and_builder(tmp_path):
    chat_of("chatml").tokenizer.save_pretrained(tmp_path)
    LlamaConfig().save_pretrained(tmp_path)
    code, output = templates(tmp_path)
    assert (code, output.splitlines()[2:]) == (0, [rf"| {tmp_path} | repaired | '\n' after a response |"])


def test_a_place_without_either_is_named(tmp_path):
    code, output = templates(tmp_path)
    assert code == 2 and f"{tmp_path} is no model and no folder of *.jinja" in output
