"""How chat templates fit episodes: those of a model, or of files without their tokenizers."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from agentgym_rl.rollout import growth
from agentgym_rl.rollout.builder import continuous_token_builder, faithful
from agentgym_rl.rollout.template import CLOSE, OPEN

MARK = re.compile(
    r"<\|[^|<>\s]+\|>|<\|[a-z_]+>|<[a-z_]+\|>|<\uff5c[^<>]+\uff5c>|<(?:start|end)_of_turn>|\[\|[a-z]+\|\]|\[gMASK\]|<sop>"
)
"""Special tokens as templates spell them."""
END = "</s>"
"""The end of a text of the small tokenizers, ``eos_token``."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How the template of a model, or of a file, fits episodes."""

    name: str
    wordings: tuple[str, ...]
    """Those in which an episode's tokens are the template's."""
    repairs: tuple[str, ...]
    """What verl's own builder for the model would get wrong."""
    reason: str
    """Why the other wordings are refused; empty where none is."""

    @property
    def verdict(self) -> str:
        if not self.wordings:
            return "refused"
        kind = "repaired" if self.repairs else "as is"
        return kind if len(self.wordings) == len(growth.OPENINGS) else f"{kind}, style={self.wordings[0]} only"


def survey(place: str) -> Iterator[Fit]:
    """The fit of a model (a folder or a hub id), or of each ``NAME.jinja`` or ``NAME@MODEL_TYPE.jinja`` in a folder.

    A file is tried with two small tokenizers that have its special tokens, a byte-level one and one like
    SentencePiece's, and the better of the two counts.

    Raises:
        FileNotFoundError: there is neither.
    """
    files = sorted(Path(place).glob("*.jinja")) if not (Path(place) / "config.json").is_file() else []
    for path in files:
        yield max((_of_file(path, spaces=spaces) for spaces in (False, True)), key=lambda fit: len(fit.wordings))
    if not files:
        try:
            tokenizer = AutoTokenizer.from_pretrained(place)
            builder = continuous_token_builder(place, tokenizer, {})
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise FileNotFoundError(f"{place} is no model and no folder of *.jinja: {reason}") from error
        yield _fit(place, builder)


def _of_file(path: Path, *, spaces: bool) -> Fit:
    name, _, model_type = path.stem.partition("@")
    tokenizer = _tokenizer(path.read_text(encoding="utf-8"), spaces=spaces)
    try:
        builder = create_continuous_token_builder(tokenizer, hf_model_type=model_type, chat_template_kwargs={})
    except ValueError as error:  # the builder of the model's family misses a token
        return Fit(name, (), (), str(error))
    return _fit(name, faithful(builder))


def _fit(name: str, builder: Any) -> Fit:
    wordings, reason = [], ""
    for style in growth.OPENINGS:
        try:
            growth.check(builder, style)
            wordings.append(style)
        except growth.Misfit as error:
            reason = str(error)
    return Fit(name, tuple(wordings), tuple(growth.repairs(builder)) if wordings else (), reason)


def _tokenizer(template: str, *, spaces: bool) -> Any:
    """A small tokenizer with the special tokens of a template; with ``spaces`` a word begins with its space."""
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    if spaces:
        core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        alphabet = list(string.printable)
    else:
        core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = sorted({*MARK.findall(template), END, "<s>", "<unk>"})
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator([*growth.RESPONSES, *growth.OBSERVATIONS] * 20, trainer)
    core.add_tokens([AddedToken(mark, normalized=False) for mark in (OPEN, CLOSE)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token=END, unk_token="<unk>", chat_template=template,
        additional_special_tokens=marks,
    )  # fmt: skip
