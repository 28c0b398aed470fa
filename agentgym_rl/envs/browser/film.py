"""Screenshots of an episode for the viewer, by playing it again."""

from __future__ import annotations

from abc import abstractmethod
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from agentgym_rl.envs.core import Task, TaskNotFound, TextEnv
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.picture import Picture, Transcript, complete, shape
from agentgym_rl.envs.registry import base_name

if TYPE_CHECKING:
    from agentgym_rl.envs.browser.session import Session


class Filmed(TextEnv):
    """An environment in a browser, whose episodes are shown by screenshots."""

    @property
    @abstractmethod
    def session(self) -> Session | None:
        """The browser session of the episode; None when it has ended."""

    @classmethod
    def pictures(cls, transcript: Transcript) -> list[Picture | None]:
        """Plays the actions again in a browser. There are no pictures where an observation differs from the episode's,
        nor after that, nor of a page that ends with the episode.

        Raises:
            EnvError: there is no browser, or it fails.
        """
        with needs(f"a picture of {cls.name}", base_name(cls.name)):
            from agentgym_rl.envs.browser.chromium import CHROMIUM
        return CHROMIUM.call_blocking(cls._film(transcript))

    @classmethod
    async def _film(cls, transcript: Transcript) -> list[Picture | None]:
        for env in (cls(), cls(style="compact")):
            try:
                if (await env.reset(Task.parse(transcript.item_id))).text == transcript.first:
                    return complete([picture async for picture in env._replay(transcript)], transcript)
            except TaskNotFound:
                break
            finally:
                await env.close()
        return complete((), transcript)

    async def _replay(self, transcript: Transcript) -> AsyncIterator[Picture | None]:
        picture = await self._shot()
        yield picture
        for action, observation in transcript.turns:
            if action is not None:
                if (await self.step(action)).observation.text != observation:
                    return
                picture = await self._shot()
            yield picture

    async def _shot(self) -> Picture | None:
        from agentgym_rl.envs.browser.chromium import CHROMIUM

        session = self.session
        if session is None:
            return None
        data = b64encode(await CHROMIUM.call(session.screenshot())).decode()
        width, height = session.size
        image = shape("image", x=0, y=0, width=width, height=height, href=f"data:image/webp;base64,{data}")
        return Picture(f"Screenshot of {session.url}", width, height, (image,))
