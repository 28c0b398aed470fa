"""verl-agent's protocol: a prompt of its own at every turn, the same for models, functions, APIs and demonstrations."""

import asyncio
import hashlib
import random
from itertools import pairwise

import encoded
import pytest
from chats import chat_of
from fake_server import FakeServer

from agentgym_rl.algorithms.step_credit import anchors
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import Action, ActionFormat
from agentgym_rl.envs.core import Observation, ProtocolError
from agentgym_rl.envs.formats import opening, reader
from agentgym_rl.eval.viewer.detail import detail, draw
from agentgym_rl.rollout.conversation import Response, Scripted
from agentgym_rl.rollout.loop import check_rules, run_attempt
from agentgym_rl.rollout.policies.api import ApiConversation
from agentgym_rl.rollout.policies.scripted import Oracle
from agentgym_rl.rollout.prompts import Prompts
from agentgym_rl.rollout.settings import RolloutSettings

RULES = RolloutSettings(style="verl_agent")
HOUSE, SHOP = Task("alfworld", 10_000), Task("webshop", 0)
SAID = {
    HOUSE: [
        "<think>I look</think>\n<action>Go to Drawer 1</action>",
        "no tags at all, I shall Go To The cabinet number 1",
        "<action>inventory</action>",
        "<think>\u597d</think><action>look</action>",
        "<THINK>x</THINK><action>go to nowhere</action>",
        "<think>a</think><action>  </action>",
        "<think>a</think> <action>look</action> <action>inventory</action>",
        "</action><think>r</think><action>examine drawer 1",
        "<think>z</think><action>go to fridge 1</action>",
        "",
    ],
    SHOP: [
        "<think>s</think><action>search[Red Shirt]</action>",
        "<think>c</think><action>click[Next >]</action>",
        "hello WORLD without any tags whatever",
        "<think>c</think><action>click[< Prev]</action>",
        "<think>p</think><action>click[B02C7A22B9]</action>",
        "<think>\u4e0d</think><action>click[Features]</action>",
        "<think>k</think><action>click[< prev]</action>",
        "<think>k</think><action>click[nothing]</action>",
        "<action>click[description]</action>",
        "<think>k</think><action>click[back to search]</action>",
    ],
}
EQUAL = {HOUSE: "e159647e09bc", SHOP: "73fce5e6dad3"}
"""Digests of the prompts that verl-agent's env_manager.py at d0b9724 builds of these games and responses, each of which
was compared with ours letter by letter."""


def episode_of(task, policy=None, turns=10, **options):
    replies = iter(SAID[task])
    env = make(task.env, style="verl_agent", **options)
    conversation = Scripted(policy or (lambda messages: next(replies)))
    return asyncio.run(run_attempt(env, task, conversation, RULES, turns))


def prompts(episode):
    return [message["content"] for message in episode.messages if message["role"] == "user"]


@pytest.mark.parametrize("task", SAID)
def test_ten_prompts_are_those_of_verl_agent(task):
    texts = prompts(episode_of(task))
    assert len(texts) == 10
    assert hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12] == EQUAL[task]


def test_what_a_prompt_of_alfworld_says():
    episode = episode_of(HOUSE)
    first, second, _, fourth, *_ = prompts(episode)
    goal = first.partition("Your task is to: ")[2].partition("\n")[0]
    assert first.startswith("\nYou are an expert agent operating in the ALFRED Embodied Environment.\nYour current ")
    assert "observation is: -= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room." in first
    assert "Your admissible actions of the current situation are: ['go to " in first and "\n 'look'].\n\nNow" in first
    assert f"Environment. Your task is to: {goal}\nPrior to this step, you have already taken 1 step(s)." in second
    assert "most recent 1 observations and the corresponding actions you took: [Observation 1: '-= Welcome" in second
    turns = [f"[Observation {at + 1}: '{seen}', Action {at + 1}: '{did}']" for at, (seen, did) in enumerate(DID)]
    assert f"most recent 2 observations and the corresponding actions you took: {turns[1]}\n{turns[2]}\n" in fourth
    assert "You are now at step 4 and your current observation is: " in fourth and "Welcome" not in fourth
    assert all(prompt.endswith("present it within <action> </action> tags.\n") for prompt in (first, second, fourth))


DID = [
    ("", "go to drawer 1"),
    ("The drawer 1 is closed.", "shall go to the cabinet number 1"[-30:]),
    ("Nothing happens.", "inventory"),
]


def test_what_a_prompt_of_webshop_says():
    first, second, *_ = prompts(episode_of(SHOP))
    goal = make("webshop").goal(SHOP)
    assert f"\nYour task is to: {goal}.\nYour current observation is: 'Search'.\n" in first
    assert "are: \n[\n'search[<your query>]',\n'click[search]',\n].\n" in first
    assert f"\nYour task is to: {goal}.\nPrior to this step, you have already taken 1 step(s). " in second
    assert "you took: [Observation 1: ''Search'', Action 1: 'search[red shirt]']\nYou are now at step 2" in second
    assert "is: 'Back to Search' [SEP] 'Page 1 (Total results: 50)' [SEP] 'Next >' [SEP] '" in second
    assert "\n[\n'click[back to search]',\n'click[next >]',\n'click[b" in second


def test_a_long_prompt_of_webshop_leaves_out_earlier_turns():
    write = make("webshop", style="verl_agent").spec.prompt
    pages = [f"Instruction: [SEP] a cup [SEP] {'word ' * words}" for words in (1, 1200, 1300, 1)]
    seen = [Observation("WebShop [SEP] Instruction: [SEP] a cup [SEP] Search", ("search[a cup]",))]
    seen += [Observation(page, ("click[a]",)) for page in pages]
    did = ["search[a]", "click[b]", "click[c]", "click[d]"]
    assert len(write(seen[:3], did[:2], 2)) > 6_000 and "Prior to this step" in write(seen[:3], did[:2], 2)
    assert "Prior to this step" not in write(seen, did, 2) and "a cup.\nYour current" in write(seen, did, 2)
    assert "Prior to this step" in write(seen, did, 1)


def test_a_turn_is_invalid_where_tags_are_missing_or_chinese_not_where_the_environment_refuses():
    episode = episode_of(HOUSE)
    assert [turn.invalid for turn in episode.turns] == [0, 1, 1, 1, 1, 0, 0, 0, 0, 1]
    refused = [turn.observation == "Nothing happens." for turn in episode.turns]
    assert refused[5] and not episode.turns[5].invalid and not refused[3] and episode.turns[3].invalid
    assert all(turn.action is not None for turn in episode.turns), "the environment is asked at every turn"


@pytest.mark.parametrize("task", SAID)
def test_gigpo_groups_turns_by_the_observation_not_by_the_prompt(task):
    episode = episode_of(task)
    assert anchors(episode)[1:] == [turn.observation for turn in episode.turns[:-1]]
    assert len(set(prompts(episode))) == 10 > len(set(anchors(episode)))


def token_episode(task, replies, prompt_limit=20_000, **rules):
    from agentgym_rl.rollout.tokens import TokenConversation

    chat, server = chat_of("chatml"), FakeServer(replies)
    conversation = TokenConversation(
        server=server, tokenizer=chat.tokenizer, builder=chat.builder, sampling={}, prompt_limit=prompt_limit,
        response_limit=600, settings=RolloutSettings(style="verl_agent", **rules),
    )  # fmt: skip
    env = make(task.env, style="verl_agent")
    return chat, asyncio.run(run_attempt(env, task, conversation, conversation.settings, len(replies))), conversation


def test_the_model_is_fed_each_prompt_alone_and_demonstrations_are_cut_alike():
    pytest.importorskip("verl")
    from agentgym_rl.rollout.supervised import of_segment

    chat = chat_of("chatml")
    texts = [text for text in SAID[HOUSE] if text]
    replies = [[*chat.tokenizer.encode(text, add_special_tokens=False), chat.tokenizer.eos_token_id] for text in texts]
    chat, episode, conversation = token_episode(HOUSE, replies)
    assert [turn.segment for turn in episode.turns] == [*range(len(texts))]
    for prompt, segment, reply in zip(prompts(episode), conversation.segments, replies, strict=True):
        assert segment.prompt_ids == chat.builder.build_initial_tokens([{"role": "user", "content": prompt}])
        assert (segment.response_ids, segment.response_mask) == (reply, [1] * len(reply))
    _, examples = encoded.encoded(
        Trajectory.of(str(HOUSE), episode.messages, episode.start), chat.tokenizer, chat.builder, prompt_limit=20_000,
        response_limit=600, settings=RULES, parse=reader(make("alfworld", style="verl_agent").spec, ActionFormat.REACT),
    )  # fmt: skip
    assert examples == [of_segment(segment) for segment in conversation.segments]


def test_a_prompt_that_does_not_fit_ends_the_episode():
    pytest.importorskip("verl")
    chat = chat_of("chatml")
    first = len(chat.builder.build_initial_tokens([{"role": "user", "content": prompts(episode_of(HOUSE))[0]}]))
    _, episode, conversation = token_episode(HOUSE, [[5]] * 3, prompt_limit=first + 10)
    assert (episode.ending, len(episode.turns), len(conversation.segments)) == ("context_limit", 1, 1)
    _, _, roomy = token_episode(HOUSE, [[5]] * 2)
    second = len(roomy.segments[1].prompt_ids)
    turns = [len(token_episode(HOUSE, [[5]] * 2, prompt_limit=limit)[1].turns) for limit in (second, second - 1)]
    assert second > first and turns == [2, 1]


@pytest.mark.parametrize("task", SAID)
def test_the_oracle_solves_with_tags_in_every_prompt(task):
    episode = asyncio.run(Oracle().run(make(task.env, style="verl_agent"), task, RULES))
    assert episode.success and not any(turn.invalid for turn in episode.turns)
    assert all(turn.response.startswith("<think>My next action is: ") for turn in episode.turns)
    for prompt, other in pairwise(prompts(episode)):
        assert prompt != other and "step(s)" in other
    assert Trajectory.of(str(task), episode.messages, episode.start).first_trained == 1


def test_a_policy_sees_the_prompt_alone():
    seen = []

    def respond(messages):
        seen.append(messages)
        return "<think>x</think><action>look</action>"

    episode = episode_of(HOUSE, respond, turns=4)
    assert [[message["content"] for message in messages] for messages in seen] == [
        [prompt] for prompt in prompts(episode)
    ]


def test_an_api_and_the_viewer_see_the_prompt_alone():
    requests = []

    class Model:
        async def respond(self, messages, seed, max_tokens):
            requests.append([message["content"] for message in messages])
            return Response("<think>x</think><action>look</action>")

    env = make("webshop", style="verl_agent")
    episode = asyncio.run(run_attempt(env, SHOP, ApiConversation(Model(), 0, 9), RULES, 3))
    assert requests == [[prompt] for prompt in prompts(episode)]
    shown = detail(episode, pictures=False)
    read = [shown["opening"][-1]["content"], *(turn["observation"] for turn in shown["turns"])]
    assert read == [*prompts(episode), episode.turns[-1].observation]
    assert len([picture for picture in draw(episode) if picture is not None]) == 4


def test_random_actions_come_from_the_list():
    env = make("alfworld", style="verl_agent")
    possible = asyncio.run(env.reset(HOUSE)).actions
    chosen = random.Random(0).choice(possible)
    assert reader(env.spec, ActionFormat.REACT)(env.spec.write(chosen, "so")) == Action(chosen, "so", True)


@pytest.mark.parametrize("action_format", ["function_calling", "code_as_action"])
def test_prompts_ask_for_tags(action_format):
    spec = make("webshop", style="verl_agent").spec
    assert opening(spec, "verl_agent", ActionFormat.TAGS) == opening(spec, "verl_agent", ActionFormat.REACT) == []
    with pytest.raises(
        ValueError, match="'webshop' asks for tags in its prompts, so action_format can only be react or"
    ):
        reader(spec, ActionFormat(action_format))


def test_style_and_context_go_together():
    assert RULES.context == "recent" and RolloutSettings().context == "full"
    for wrong in ({"style": "verl_agent", "context": "window"}, {"context": "recent"}):
        with pytest.raises(ValueError, match=f"rollout.context={wrong['context']} does not go with style="):
            RolloutSettings(**wrong)
    with pytest.raises(
        ValueError, match=r"context=full does not go with alfworld in style=verl_agent; set rollout.style"
    ):
        check_rules(make("alfworld", style="verl_agent"), RolloutSettings())
    with pytest.raises(ValueError, match="maze has no style 'verl_agent'; choose agentgym or compact"):
        make("maze", style="verl_agent")


def test_actions_that_agentgyms_client_adds_are_not_shown_twice():
    write = make("alfworld", style="verl_agent").spec.prompt
    room = "You are in the middle of a room.\nYour task is to: put a mug in desk."
    seen = [
        Observation(f"{room}\nAVAILABLE ACTIONS: look,go to desk 1", ("look",)),
        Observation("On the desk.", ("look",)),
    ]
    assert "AVAILABLE" not in write(seen[:1], [], 2) and "put a mug in desk.\nYour admissible" in write(seen[:1], [], 2)
    assert "Your task is to: put a mug in desk.\nPrior to" in write(seen, ["look"], 2)


def test_a_server_that_lists_no_actions_is_an_error():
    shown = Prompts(make("webshop", style="verl_agent"), RULES)
    with pytest.raises(
        ProtocolError, match="style=verl_agent shows the possible actions, which this environment does not"
    ):
        shown.message(Observation("WebShop [SEP] Instruction: [SEP] a cup [SEP] Search"))
