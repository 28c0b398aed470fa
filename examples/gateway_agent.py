"""An agent written with OpenAI's client walks through mazes; the gateway puts any model under it.

agentgym-rl eval panel=maze:test_variants:20 policy=smollm2_135m harness="python examples/gateway_agent.py" \
    options.maze.steps=1-4 temperature=1 backend=transformers
"""

import json
import os
import re
from urllib.request import Request, urlopen

from openai import OpenAI

import agentgym_rl as ag

task, client, reward = json.loads(os.environ["AGENTGYM_TASK"]), OpenAI(), 0.0
maze, messages = ag.make("maze", style="compact"), [{"role": "system", "content": "Walk to the goal."}]
for way, alt in (("up", "left"), ("left", "down"), ("down", "right"), ("right", "up")):
    messages += [{"role": "user", "content": f"goal two {way} open {way} {alt}"}, {"role": "assistant", "content": way}]
messages.append({"role": "user", "content": maze.reset(task["item_id"])})
for _ in range(6):
    said = client.chat.completions.create(model="policy", messages=messages, max_tokens=4).choices[0].message
    way = re.search("up|down|left|right", said.content.lower())
    observation, reward, done, _, _ = maze.step(f"move {way[0]}" if way else "nowhere")
    if done:
        break
    messages += [said, {"role": "user", "content": observation}]
head = {"Authorization": f"Bearer {os.environ['AGENTGYM_KEY']}"}
urlopen(Request(os.environ["AGENTGYM_REWARD_URL"], json.dumps({"reward": reward}).encode(), head))
