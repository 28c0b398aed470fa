"""Plays TextCraft with an agent of ``smolagents``, which calls a tool."""

import json
import os

from smolagents import OpenAIModel, ToolCallingAgent, tool
from smolagents.agents import EMPTY_PROMPT_TEMPLATES
from worth import tell

import agentgym_rl as ag

task, env, earned, said = json.loads(os.environ["AGENTGYM_TASK"]), ag.make("textcraft"), [], []
first = env.reset(task["item_id"])


@tool
def act(command: str) -> str:
    """Act in the game.

    Args:
        command: such as get 1 oak log, craft 4 oak planks using 1 oak log, inventory.
    """
    said.append(command)
    observation, reward, *_ = env.step(command)
    earned.append(reward)
    return observation


model = OpenAIModel("policy", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
prompts = {**EMPTY_PROMPT_TEMPLATES, "system_prompt": "Call act, and final_answer when it is crafted."}
agent = ToolCallingAgent([act], model, prompts, max_steps=8, verbosity_level=0)
try:
    agent.run(first)
except Exception as error:
    if "turn_limit" not in str(error):
        raise
tell(sum(earned), [str(step.model_output) for step in agent.memory.steps if hasattr(step, "model_output")])
