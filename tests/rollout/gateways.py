"""A gateway on loopback, and models behind it."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import httpx

from agentgym_rl.rollout.conversation import Response
from agentgym_rl.rollout.gateway.server import Gateway
from agentgym_rl.rollout.gateway.session import Limits
from agentgym_rl.rollout.gateway.texts import TextChat


def says(*texts, seconds=0.0, counted=(0, 0)):
    """A chat whose model gives these replies in turn, the last one over and over; its API counts so many tokens."""
    waiting = list(texts)

    async def ask(messages, room):
        await asyncio.sleep(seconds)
        return Response(waiting.pop(0) if len(waiting) > 1 else waiting[0], counted=counted)

    return TextChat(ask)


def echo():
    """A chat whose model repeats the last message."""

    async def ask(messages, room):
        return Response(messages[-1]["content"] or "nothing")

    return TextChat(ask)


def failing(error):
    """A chat whose model fails."""

    async def ask(messages, room):
        raise error

    return TextChat(ask)


@asynccontextmanager
async def opened(chat, sessions=None, opens=None, **limits):
    """A session of a gateway, a client that has its key, and the gateway."""
    async with Gateway(sessions=sessions, opens=opens) as gateway:
        session = gateway.open(chat, Limits(**limits))
        headers = {"authorization": f"Bearer {session.key}"}
        async with httpx.AsyncClient(
            base_url=gateway.address(session), headers=headers, timeout=20, verify=False
        ) as client:
            yield session, client, gateway


def served(test, chat, sessions=None, **limits):
    """What a coroutine of session, client and gateway gives."""

    async def run():
        async with opened(chat, sessions, **limits) as (session, client, gateway):
            return await test(session, client, gateway)

    return asyncio.run(run())


CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
GO = {"model": "m", "messages": [{"role": "user", "content": "go"}]}


def events(text):
    """The data of server-sent events."""
    lines = re.findall(r"^data: (.*)$", text, re.MULTILINE)
    return [json.loads(each) for each in lines if each != "[DONE]"]
