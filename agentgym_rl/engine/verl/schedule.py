"""Which steps' episodes start when."""

from __future__ import annotations


class Schedule:
    """In each training step, the steps whose episodes start: the step itself, or those ``ahead`` of it.

    Args:
        ahead: steps whose episodes are under way while an earlier step is learned from; 0 in ``engine.mode=sync``.
    """

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self._last: int | None = None

    def start(self, number: int, steps: int) -> range:
        """The steps whose episodes start in step ``number`` (from 0) of a stage of ``steps``.

        A stage, or what is left of it after a stop, begins with nothing under way.
        """
        begins = number == 0 or self._last is None or number != self._last + 1
        self._last = number
        first = number if begins else number + self.ahead
        return range(first, min(number + self.ahead, steps - 1) + 1)
