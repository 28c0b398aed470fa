"""Index a corpus: ``python -m agentgym_rl.envs.searchqa CORPUS INDEX``."""

import argparse

from agentgym_rl.envs.searchqa.corpus import build

parser = argparse.ArgumentParser(
    "python -m agentgym_rl.envs.searchqa", description="Index a corpus for the environment searchqa."
)
parser.add_argument("corpus", help="JSONL file in Search-R1's form, unpacked")
parser.add_argument("index", help="folder to write")

if __name__ == "__main__":
    arguments = parser.parse_args()
    print(f"{build(arguments.corpus, arguments.index, show_progress=True)} passages indexed in {arguments.index}")
