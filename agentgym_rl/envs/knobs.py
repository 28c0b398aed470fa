"""Options by which the tasks of an environment become harder, easier or other ones."""

from dataclasses import dataclass

Setting = str | int
"""The value of a knob."""


@dataclass(frozen=True, slots=True)
class Knob:
    """An option of an environment's class, and the values between which a search may move it."""

    option: str
    """Its name."""
    values: tuple[Setting, ...]
    """Each once; in their order, if they have one."""
    ordered: bool = True
    """False where no value is nearer to one than to another."""
    nested: bool = False
    """A value has the tasks of those before it, too."""

    def near(self, value: Setting) -> list[Setting]:
        """The values that one step leads to."""
        place = self.values.index(value)
        return [
            other
            for at, other in enumerate(self.values)
            if other != value and (not self.ordered or abs(at - place) == 1)
        ]

    def distance(self, setting: Setting, other: Setting) -> float:
        """How far two values are apart, in [0, 1]."""
        if not self.ordered or setting == other:
            return float(setting != other)
        return abs(self.values.index(setting) - self.values.index(other)) / (len(self.values) - 1)
