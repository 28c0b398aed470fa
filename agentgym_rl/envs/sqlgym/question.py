"""A question."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a database."""

    database: str
    text: str
    gold: str
    """A query that answers it."""
    evidence: str = ""
    """A hint on the meaning of the question's words and values (BIRD's term)."""
    version: str = ""
    """Distinguishes databases of one name."""

    def __str__(self) -> str:
        place = " ".join(filter(None, [self.database, self.version]))
        return " ".join(f"{place}: {self.text} {self.evidence}".split())
