"""What an agent does in the tabs of a context: commands on elements, with mouse and keyboard, and of the tabs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error

from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.browser.commands import Command, Refused
from agentgym_rl.envs.browser.settings import Settings
from agentgym_rl.envs.browser.tabs import MAX_SHOWN_CHARACTERS, Tabs
from agentgym_rl.envs.tables import read_utf8

MAX_TYPED_CHARACTERS = 200
"""Of a text that is typed key by key; a longer one is inserted at once."""

_KEYS = {
    **{"ctrl": "Control", "control": "Control", "cmd": "Meta", "command": "Meta", "meta": "Meta", "option": "Alt"},
    **{"alt": "Alt", "shift": "Shift", "esc": "Escape", "escape": "Escape", "enter": "Enter", "return": "Enter"},
    **{"tab": "Tab", "space": "Space", "backspace": "Backspace", "delete": "Delete", "del": "Delete", "home": "Home"},
    **{"end": "End", "pageup": "PageUp", "pagedown": "PageDown"},
    **{f"{before}{way.lower()}": f"Arrow{way}" for way in ("Up", "Down", "Left", "Right") for before in ("", "arrow")},
}
"""Names of keys that agents write, and the browser's."""

_CHOOSE = read_utf8(Path(__file__).with_name("choose.js"))


class Actions:
    """The commands, carried out in the current tab."""

    def __init__(self, tabs: Tabs, settings: Settings) -> None:
        self._tabs, self._settings = tabs, settings
        self.options: frozenset[int] = frozenset()
        """Nodes of the last view that may be options of a list."""

    async def perform(self, command: Command) -> None:
        """Carry out a command. Raises Refused: it cannot be carried out, for a reason that the agent can mend."""
        await self._by_name()[command.name](*command.arguments)

    def _by_name(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        return {
            "click": self._click,
            "dblclick": lambda id: self._click(id, clicks=2),
            "hover": self._hover,
            "type": self._type,
            "fill": self._fill,
            "select": self._select,
            "drag": self._drag,
            "mouse_click": lambda x, y: self._tabs.current.mouse.click(float(x), float(y)),
            "mouse_drag": self._mouse_drag,
            "press": self._press,
            "scroll": self._scroll,
            "wait": self._wait,
            "tab_focus": self._focus,
            "new_tab": self._new_tab,
            "close_tab": self._close_tab,
            "goto": self._go,
            "go_back": lambda: self._tabs.current.go_back(wait_until="commit"),
            "go_forward": lambda: self._tabs.current.go_forward(wait_until="commit"),
        }

    async def _click(self, id: str, clicks: int = 1) -> None:
        if clicks == 1 and self._node(id) in self.options and await self._call(id, _CHOOSE, ""):
            return  # an option of a list, which has no place on the page
        await self._tabs.current.mouse.click(*await self._point(id), click_count=clicks)

    async def _hover(self, id: str) -> None:
        await self._tabs.current.mouse.move(*await self._point(id))

    async def _type(self, id: str, text: str, enter: str) -> None:
        await self._click(id)
        await self._write(text)
        if enter != "0":
            await self._tabs.current.keyboard.press("Enter")

    async def _fill(self, id: str, text: str) -> None:
        await self._click(id)
        await self._tabs.current.keyboard.press("Control+a")
        await self._tabs.current.keyboard.press("Delete")
        await self._write(text)

    async def _write(self, text: str) -> None:
        keyboard = self._tabs.current.keyboard
        await (keyboard.type(text) if len(text) <= MAX_TYPED_CHARACTERS else keyboard.insert_text(text))

    async def _select(self, id: str, option: str) -> None:
        if not await self._call(id, _CHOOSE, option):
            raise Refused(f"[{id}] is no list with the option {option!r}")

    async def _drag(self, source: str, target: str) -> None:
        start = await self._point(source)
        await self._mouse_drag(*start, *await self._point(target))

    async def _mouse_drag(self, *ends: str | float) -> None:
        from_x, from_y, to_x, to_y = map(float, ends)
        mouse = self._tabs.current.mouse
        await mouse.move(from_x, from_y)
        await mouse.down()
        await mouse.move(to_x, to_y, steps=5)
        await mouse.up()

    async def _press(self, keys: str) -> None:
        names = [_KEYS.get(key.strip().lower(), key.strip()) for key in keys.split("+")] if keys != "+" else ["+"]
        try:
            await self._tabs.current.keyboard.press("+".join(names))
        except Error as error:
            if "Unknown key" not in str(error):
                raise
            raise Refused(f"there is no key {cut(keys, 40)!r}") from error

    async def _scroll(self, direction: str) -> None:
        step = self._settings.height * 0.8
        await self._tabs.current.mouse.wheel(0, step if direction == "down" else -step)

    async def _wait(self) -> None:
        return None

    async def _focus(self, number: str) -> None:
        pages = self._tabs.pages
        if int(number) >= len(pages):
            raise Refused(f"there is no tab {number}: there are 0 to {len(pages) - 1}")
        self._tabs.current = pages[int(number)]
        await self._tabs.current.bring_to_front()

    async def _new_tab(self) -> None:
        if len(self._tabs.pages) >= self._settings.tabs:
            raise Refused(f"there are {len(self._tabs.pages)} tabs already; close one first")
        await self._tabs.new()

    async def _close_tab(self) -> None:
        if len(self._tabs.pages) == 1:
            await self._tabs.new()
            await self._tabs.pages[0].close()
        else:
            await self._tabs.current.close()

    async def _go(self, url: str) -> None:
        url = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(url)
            names = (parts.hostname or "", f"{parts.hostname}:{parts.port or {'http': 80}.get(parts.scheme, 443)}")
        except ValueError as error:
            raise Refused(f"{cut(url, MAX_SHOWN_CHARACTERS)!r} is no address: {error}") from error
        if parts.scheme not in ("http", "https") or not set(names) & set(self._settings.hosts):
            raise Refused(
                f"{cut(url, MAX_SHOWN_CHARACTERS)!r} may not be opened; open only {', '.join(self._settings.hosts)}"
            )
        try:
            await self._tabs.current.goto(url, wait_until="commit")
        except Error as error:
            if "net::ERR_" not in str(error):
                raise  # otherwise the browser shows a page of the fault

    def _node(self, id: str) -> int:
        node = self._tabs.numbers[self._tabs.current].node(int(id))
        if node is None:
            raise Refused(f"there is no element [{id}]")
        return node

    async def _call(self, id: str, function: str, argument: str) -> Any:
        """The value of a function of the element."""
        connection, node = await self._tabs.connection(), self._node(id)
        try:
            resolved = await connection.send("DOM.resolveNode", {"backendNodeId": node})
        except Error as error:
            raise self._gone(id, error) from error
        request = {
            "objectId": resolved["object"]["objectId"],
            "functionDeclaration": function,
            "arguments": [{"value": argument}],
            "returnByValue": True,
        }
        return (await connection.send("Runtime.callFunctionOn", request))["result"].get("value")

    async def _point(self, id: str) -> tuple[float, float]:
        """The middle of the element's visible part, which is scrolled into view."""
        connection, target = await self._tabs.connection(), {"backendNodeId": self._node(id)}
        try:
            answers = await asyncio.gather(  # answered in this order
                connection.send("DOM.scrollIntoViewIfNeeded", target), connection.send("DOM.getContentQuads", target)
            )
        except Error as error:
            raise self._gone(id, error) from error
        for quad in answers[1]["quads"]:
            left, right = max(min(quad[0::2]), 0), min(max(quad[0::2]), self._settings.width)
            top, bottom = max(min(quad[1::2]), 0), min(max(quad[1::2]), self._settings.height)
            if left < right and top < bottom:
                return (left + right) / 2, (top + bottom) / 2
        raise Refused(f"[{id}] is not visible")

    def _gone(self, id: str, error: Error) -> Exception:
        """What a fault about a node means: it has left the page or is hidden, or something has ended."""
        if "Protocol error (DOM." in str(error):
            return Refused(f"[{id}] is not on the page any more, or not visible")
        return error
