"""What WebShop costs: start-up, memory and steps, with the built-in products and with so many synthetic ones on disk.

Synthetic products repeat the built-in ones, each with words of its own. Every shop is opened in a process of its own.

    python benchmarks/webshop.py --products 1000 200000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from options import positive
from rich.console import Console
from rich.table import Table

EPISODES = 100
STEP = """
import asyncio, json, sys, time
from statistics import median
started = time.perf_counter()
import psutil
from agentgym_rl.envs import Task, make
env = make("webshop", **json.loads(sys.argv[1]))
goal = env.goal(Task("webshop", 0))
opened = [time.perf_counter() - started, time.process_time()]
times = {"search": [], "click": []}
async def play():
    for index in range(200, 200 + int(sys.argv[2])):
        task = Task("webshop", index)
        await env.reset(task)
        asin = env.shop.goals(index).product.asin.lower()
        for action in ("search[%s]" % env.goal(task)[:100], "click[next >]", "click[< prev]", f"click[{asin}]"):
            before = time.perf_counter()
            await env.step(action)
            times[action.partition("[")[0]].append(time.perf_counter() - before)
asyncio.run(play())
memory = psutil.Process().memory_full_info()
print(json.dumps([*opened, memory.uss, memory.rss, *(1000 * median(times[kind]) for kind in times)]))
"""


def synthetic(count: int) -> Iterator[dict[str, object]]:
    """Products in the form of WebShop's file."""
    from agentgym_rl.envs.webshop import catalogue

    stock, rng = catalogue.products(), Random(0)
    for number in range(count):
        product = stock[number % len(stock)]
        filler = " ".join(f"w{rng.randrange(200_000)}" for _ in range(40))
        yield {
            "asin": f"{number:010}",
            "name": f"{product.title} {filler[:30]}",
            "full_description": f"{product.description} {filler}",
            "small_description": list(product.bullets),
            "pricing": product.price_tag,
            "customization_options": {
                name: [{"value": each} for each in values] for name, values in product.options.items()
            },
            "query": product.query,
            "product_category": product.category,
        }


def write(folder: Path, count: int) -> Path:
    """The files of so many products, of which the first thousand have goals."""
    path = folder / "items_shuffle.json"
    with path.open("w") as file:
        for number, product in enumerate(synthetic(count)):
            file.write(("[" if number == 0 else ",\n") + json.dumps(product))
        file.write("]")
    mark = {"attributes": ["x"], "instruction": "Find me one", "instruction_attributes": ["x"]}
    path.with_name("items_ins_v2.json").write_text(json.dumps({f"{number:010}": mark for number in range(1000)}))
    return path


def opened(options: dict[str, str]) -> list[str]:
    """Cells of a table: seconds to open and of CPU, MB of its own and with mapped files, ms of a search and a click."""
    command = [sys.executable, "-c", STEP, json.dumps(options), str(EPISODES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, cpu, own_bytes, all_of_it, search, click = json.loads(done.stdout)
    return [
        f"{seconds:.1f}",
        f"{cpu:.1f}",
        f"{own_bytes / 1e6:.0f}",
        f"{all_of_it / 1e6:.0f}",
        f"{search:.2f}",
        f"{click:.2f}",
    ]


def built(products: Path, folder: Path) -> list[str]:
    """Cells of a table: seconds to build and of CPU, peak MB, MB on disk."""
    before, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-m", "agentgym_rl.envs.webshop", str(products), str(folder)], check=True)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    seconds, cpu = time.perf_counter() - before, children.ru_utime - used
    return [f"{seconds:.0f}", f"{cpu:.0f}", f"{children.ru_maxrss * 1024 / 1e6:.0f}", f"{size / 1e6:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=positive, nargs="*", default=[1000], help="sizes of synthetic shops, rising")
    arguments = parser.parse_args()
    table = Table(title="WebShop")
    building, running = ("build s", "CPU s", "peak MB", "disk MB"), ("open s", "CPU s", "MB", "with maps")
    for column in ("products", *building, *running, "search ms", "click ms"):
        table.add_column(column, justify="right")
    table.add_row("built in", *[""] * 4, *opened({}))
    for count in arguments.products:
        with tempfile.TemporaryDirectory() as folder:
            products = write(Path(folder), count)
            shop = Path(folder) / "shop"
            table.add_row(f"{count:,}", *built(products, shop), *opened({"data": str(shop)}))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
