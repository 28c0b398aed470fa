"""An agent written with OpenAI's client plays TextCraft; the gateway puts any model under it.

agentgym-rl eval panel=textcraft:test:20 policy=smollm2_135m harness="python examples/gateway_agent.py"
"""

import json
import os
from urllib.request import Request, urlopen

from openai import BadRequestError, OpenAI

import agentgym_rl as ag

task, client = json.loads(os.environ["AGENTGYM_TASK"]), OpenAI()
env, reward, done = ag.make("textcraft"), 0.0, False
messages = [{"role": "user", "content": f"Craft it. Answer with Action: <command>.\n{env.reset(task['item_id'])}"}]
while not done:
    try:
        said = client.chat.completions.create(model="policy", messages=messages).choices[0].message
    except BadRequestError:  # the limit of turns or tokens
        break
    observation, gained, terminated, truncated, _ = env.step(said.content.rpartition("Action:")[2].strip())
    reward, done = reward + gained, terminated or truncated
    messages += [said, {"role": "user", "content": observation}]
head = {"Authorization": f"Bearer {os.environ['AGENTGYM_KEY']}"}
urlopen(Request(os.environ["AGENTGYM_REWARD_URL"], json.dumps({"reward": reward}).encode(), head))
