"""Make a shop of WebShop's own files: ``python -m agentgym_rl.envs.webshop PRODUCTS FOLDER``."""

import argparse

from agentgym_rl.envs.command import run
from agentgym_rl.envs.webshop.official import build

parser = argparse.ArgumentParser(
    "python -m agentgym_rl.envs.webshop", description="Make a folder for the option data of the environment webshop."
)
parser.add_argument("products", help="items_shuffle.json or items_shuffle_1000.json, its companions beside it")
parser.add_argument("folder", help="folder to write")


def shop(arguments: argparse.Namespace) -> str:
    """Build the folder; returns what came of it."""
    return f"{build(arguments.products, arguments.folder, show_progress=True)} products in {arguments.folder}"


if __name__ == "__main__":
    run(parser, "webshop", shop)
