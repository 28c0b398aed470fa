"""A harness that is a Python function, as a program: ``python -m agentgym_rl.rollout.harness.call module:function``."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from agentgym_rl.rollout.harness.settings import found


def main(name: str) -> None:
    """Call the function; a number that it returns is sent as the reward.

    Raises:
        HTTPError: the gateway refuses the reward; a note says why.
    """
    environ = os.environ
    reward = found(name)(json.loads(environ["AGENTGYM_TASK"]), environ["AGENTGYM_BASE_URL"], environ["AGENTGYM_KEY"])
    if inspect.iscoroutine(reward):
        reward = asyncio.run(reward)
    if reward is None:
        return
    head = {"Authorization": f"Bearer {environ['AGENTGYM_KEY']}", "Content-Type": "application/json"}
    body = json.dumps({"reward": float(reward)}).encode()
    try:
        build_opener(ProxyHandler({})).open(Request(environ["AGENTGYM_REWARD_URL"], body, head)).close()
    except HTTPError as error:
        error.add_note(f"the reward is {reward!r:.80}; the gateway says: {error.read().decode('utf-8', 'replace')}")
        raise


if __name__ == "__main__":
    main(sys.argv[1])
