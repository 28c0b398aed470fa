"""Index a corpus: ``python -m agentgym_rl.envs.searchqa CORPUS INDEX``."""

import argparse

from agentgym_rl.envs.command import run
from agentgym_rl.envs.searchqa.corpus import build

parser = argparse.ArgumentParser(
    "python -m agentgym_rl.envs.searchqa", description="Index a corpus for the environment searchqa."
)
parser.add_argument("corpus", help="JSONL file in Search-R1's form, unpacked")
parser.add_argument("index", help="folder to write")


def index(arguments: argparse.Namespace) -> str:
    """Build the index; returns what came of it."""
    return f"{build(arguments.corpus, arguments.index, show_progress=True)} passages indexed in {arguments.index}"


if __name__ == "__main__":
    run(parser, "searchqa", index)
