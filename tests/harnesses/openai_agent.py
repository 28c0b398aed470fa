"""Plays TextCraft with the official ``openai`` client."""

import json
import os

from openai import BadRequestError, OpenAI
from worth import tell

import agentgym_rl as ag

task, client = json.loads(os.environ["AGENTGYM_TASK"]), OpenAI()
env, reward, done, said = ag.make("textcraft"), 0.0, False, []
messages = [{"role": "user", "content": f"Answer with Action: <command>.\n{env.reset(task['item_id'])}"}]
while not done:
    try:
        reply = client.chat.completions.create(model="policy", messages=messages, stream=True)
        said.append("".join(part.choices[0].delta.content or "" for part in reply if part.choices))
    except BadRequestError:  # the limit of turns
        break
    observation, gained, terminated, truncated, _ = env.step(said[-1].rpartition("Action:")[2].strip())
    reward, done = reward + gained, terminated or truncated
    messages += [{"role": "assistant", "content": said[-1]}, {"role": "user", "content": observation}]
tell(reward, said)
