"""What a browser session costs: memory of a context, and time of a step, in MiniWoB++ or on WebArena's built-in sites.

Sessions are opened one after the other, each with a page; then all step at the same time, each with random actions of
its own. Memory is the proportional set size (PSS) of all processes of the browser and its driver, without and with the
sessions, so that shared pages count once.

    python benchmarks/browser.py
    python benchmarks/browser.py --env webarena --sessions 8 --steps 20
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from contextlib import suppress
from statistics import median, quantiles

import psutil
from options import positive

from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.browser.chromium import CHROMIUM


def memory() -> float:
    """MB of the processes that this one has started."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended since
            total += process.memory_full_info().pss
    return total / 1e6


async def play(env: TextEnv, number: int, steps: int) -> list[float]:
    """Seconds of each step; a session whose task ends goes on with another one."""
    rng, times = random.Random(number), []
    train = env.spec.splits["train"]
    seen = await env.reset(Task(env.name, train[number]))
    while len(times) < steps:
        action = rng.choice(seen.actions or ("wait",))
        start = time.perf_counter()
        step = await env.step(action)
        times.append(time.perf_counter() - start)
        seen = await env.reset(Task(env.name, rng.choice(train))) if step.done else step.observation
    return times


async def measure(name: str, sessions: int, steps: int) -> None:
    context = await CHROMIUM.call(CHROMIUM.lease())
    await asyncio.sleep(1)
    base = memory()
    envs = [make(name) for _ in range(sessions)]
    for number, env in enumerate(envs):
        await env.reset(Task(name, env.spec.splits["train"][number * 3]))
    full = memory()
    alone = await play(envs[0], 0, steps)
    together = [
        seconds
        for times in await asyncio.gather(*(play(env, n, steps) for n, env in enumerate(envs)))
        for seconds in times
    ]
    worked = memory()
    for env in envs:
        await env.close()
    await CHROMIUM.call(CHROMIUM.give_back(context))
    await asyncio.sleep(1)
    print(f"{name}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {sessions} sessions, {steps} steps each")
    print(f"browser without sessions      {base:8.0f} MB")
    print(f"each session, its page open   {(full - base) / sessions:8.1f} MB")
    print(f"each session, after its steps {(worked - base) / sessions:8.1f} MB")
    print(f"all sessions closed           {memory():8.0f} MB")
    for what, times in (("one session steps", alone), ("all sessions step at once", together)):
        low, *_, high = quantiles(times, n=20)
        print(f"{what:29} {median(times) * 1e3:8.0f} ms, 5 to 95 %: {low * 1e3:.0f} to {high * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=("miniwob", "webarena"), default="miniwob", help="what is played")
    parser.add_argument("--sessions", type=positive, default=32, help="contexts at the same time")
    parser.add_argument("--steps", type=positive, default=30, help="actions of each session")
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps: their spread needs two or more")
    asyncio.run(measure(args.env, args.sessions, args.steps))


if __name__ == "__main__":
    main()
