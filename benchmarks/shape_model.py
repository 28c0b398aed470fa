"""A model folder with the shape of Qwen2.5-1.5B and random weights, for measuring without a download.

The tokenizer and chat template are those of another model's folder; its vocabulary is filled up to that of the shape,
so that every token that random weights choose has a text.

    python benchmarks/shape_model.py OUT --tokenizer FOLDER [--tiny]
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from gpu import SHAPE, TINY
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
SMALL = {**TINY, "hidden_size": 128}
"""vLLM's attention on a CPU takes heads of 32 numbers and more."""


def fill_vocabulary(file: Path, size: int) -> None:
    """Add entries without merges to a BPE tokenizer's file until it has ``size`` tokens."""
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    used = set(vocabulary.values()) | {token["id"] for token in tokenizer["added_tokens"]}
    vocabulary |= {f"filler{number}": number for number in range(size) if number not in used}
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def build(out: Path, source: Path, shape: dict[str, int], device: str) -> int:
    """Write the folder; returns the number of parameters."""
    tokenizer = AutoTokenizer.from_pretrained(source)
    size = max(shape["vocab_size"], len(tokenizer))
    torch.manual_seed(0)
    with torch.device(device):
        config = Qwen2Config(
            **{**shape, "vocab_size": size}, max_position_embeddings=32_768, bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
        )  # fmt: skip
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(out)
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, out / name)
    fill_vocabulary(out / "tokenizer.json", size)
    return sum(weight.numel() for weight in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of a model with a BPE tokenizer.json")
    parser.add_argument("--tiny", action="store_true", help="some thousand parameters instead")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parameters = build(args.out, args.tokenizer, SMALL if args.tiny else SHAPE, device)
    print(f"{args.out}: {parameters:,} parameters")


if __name__ == "__main__":
    main()
