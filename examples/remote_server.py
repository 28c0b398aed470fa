"""Train on an environment that runs on an AgentGym server.

    python examples/remote_server.py                                     # starts a server of its own
    python examples/remote_server.py --address http://127.0.0.1:36001    # AgentGym's TextCraft server, already running
    python examples/remote_server.py algorithm=grpo seed=1               # overrides of the training command
    python examples/remote_server.py -- -m algorithm=grpo,rloo           # several runs, one after the other

Runs three oracle episodes over HTTP, then trains two steps (`experiment=smoke`, minutes), unless with `--play-only`.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = [sys.executable, "-m", "agentgym_rl.cli"]


@contextmanager
def server(env: str) -> Iterator[str]:
    """Serve an environment on a free port of this machine; yields the address."""
    serving = subprocess.Popen(
        [*COMMAND, "serve", env, "--port", "0", "--style", "compact"], stderr=subprocess.PIPE, text=True
    )
    assert serving.stderr is not None
    try:
        said = serving.stderr.readline()  # "Serving textcraft at http://127.0.0.1:40361 (its pages: ..."
        if " at http" not in said:
            raise SystemExit(f"the server did not start: {said}{serving.stderr.read()}")
        yield said.split(" at ")[1].split()[0]
    finally:
        serving.terminate()
        serving.wait()


def run(*arguments: str) -> None:
    print(f"$ agentgym-rl {' '.join(arguments)}", flush=True)
    subprocess.run([*COMMAND, *arguments], check=True)


def use(address: str, overrides: list[str], train: bool) -> None:
    out = Path("runs/remote_experts.json")
    out.parent.mkdir(exist_ok=True)
    run("collect", "textcraft", "--address", address, "--style", "compact", "--n", "3", "--out", str(out))
    if train:
        place = "env.host=remote", f"env.address={address}"
        run("train", "experiment=smoke", "name=remote-${algorithm.name}", *place, *overrides)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on an environment that runs on a server.")
    parser.add_argument("--address", help="address of a running TextCraft server")
    parser.add_argument("--play-only", action="store_true", help="do not train")
    parser.add_argument("overrides", nargs="*", help="overrides of agentgym-rl train")
    given = parser.parse_args()
    if given.address:
        use(given.address, given.overrides, not given.play_only)
        return
    with server("textcraft") as address:
        use(address, given.overrides, not given.play_only)


if __name__ == "__main__":
    main()
