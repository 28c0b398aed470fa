"""Formulas such as ``=SUM(B2:B9)*1.1``: a small grammar, evaluated without Python's ``eval``.

::

    comparison = sum [("=" | "<>" | "<=" | ">=" | "<" | ">") sum]
    sum        = product {("+" | "-") product}
    product    = signed {("*" | "/") signed}
    signed     = {"-" | "+"} atom
    atom       = number | "text" | cell [":" cell] | NAME "(" [comparison {"," comparison}] ")" | "(" comparison ")"
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any, ClassVar

Value = str | float
"""The value of a cell; an empty cell has the empty text."""

Place = tuple[int, int]
"""Row and column, both counted from 1."""

Read = Callable[[int, int], Value]
"""The value of the cell in a row and column."""

ROWS, COLUMNS = 100, 26
"""Size of a sheet: rows, and columns A to Z."""
MAX_FORMULA_CHARACTERS = 120
DEEPEST = 5
"""Depth of nested brackets."""
MAX_CELLS = 3_000
"""Cells in all ranges of a formula."""
BROKEN = "#ERROR!"
"""Value of a formula that can no longer be evaluated, for instance because its cells were deleted."""
EXACT = Context(prec=400)
"""Room for all digits of any float before the point, and nine after it."""


class FormulaError(ValueError):
    """A formula that cannot be read or has no value; the message is for the agent."""


def _two(numbers: list[float]) -> float:
    if len(numbers) != 2:
        raise FormulaError(f"MINUS takes two numbers, got {len(numbers)}")
    return numbers[0] - numbers[1]


def _average(numbers: list[float]) -> float:
    if not numbers:
        raise FormulaError("AVERAGE of no numbers: division by zero")
    return sum(numbers) / len(numbers)


FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "SUM": lambda numbers: sum(numbers, 0.0),
    "AVERAGE": _average,
    "COUNT": lambda numbers: float(len(numbers)),
    "MAX": lambda numbers: max(numbers, default=0.0),
    "MIN": lambda numbers: min(numbers, default=0.0),
    "MINUS": _two,
    "PRODUCT": lambda numbers: math.prod(numbers) if numbers else 0.0,
}
"""Functions of all numbers in their arguments; text is ignored. The parser handles ``ROUND`` and ``IF``."""

_CALCULATE: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}

_TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+\.?\d*|\.\d+)|(?P<text>"[^"]*")|(?P<cell>[A-Z][1-9]\d{0,3})(?![A-Za-z0-9(])'
    r"|(?P<name>[A-Za-z]+)(?=\s*\()|(?P<sign><>|<=|>=|[-+*/=<>(),:]))"
)
_CELL = re.compile(r"([A-Z])([1-9]\d{0,3})")
_CELLS = re.compile(r"(?<![A-Za-z0-9])([A-Z][1-9]\d{0,3})(?::([A-Z][1-9]\d{0,3}))?(?![A-Za-z0-9(])")


def position(cell: str) -> Place | None:
    """Row and column of a cell such as ``B12``, both from 1; None where the text is no cell of a sheet."""
    match = _CELL.fullmatch(cell)
    return (int(match[2]), ord(match[1]) - 64) if match and int(match[2]) <= ROWS else None


def name(row: int, column: int) -> str:
    """The cell in A1 notation."""
    return f"{chr(64 + column)}{row}"


def evaluate(formula: str, read: Read) -> Value:
    """The value of a formula that starts with ``=``. Raises FormulaError: it cannot be read, or has no value."""
    if len(formula) > MAX_FORMULA_CHARACTERS:
        raise FormulaError(f"a formula has at most {MAX_FORMULA_CHARACTERS} characters")
    parser = _Parser(_tokens(formula[1:]), read)
    value = parser.comparison(0)
    if parser.rest:
        raise FormulaError(f"unexpected {parser.rest[0][1]!r} in the formula")
    return _single(value())


def moved(formula: str, move: Callable[[int, int], Place | None]) -> str:
    """The formula with its cells moved. A range covers its remaining cells, or becomes ``#REF!`` where none remain."""

    def replaced(match: re.Match[str]) -> str:
        first, last = position(match[1]), position(match[2] or match[1])
        there = [move(*place) for place in _between(first, last)] if first and last else []
        left_over = [place for place in there if place and 1 <= place[0] <= ROWS and place[1] <= COLUMNS]
        if not left_over:
            return "#REF!"
        corners = [name(*(pick(place[axis] for place in left_over) for axis in (0, 1))) for pick in (min, max)]
        return ":".join(corners) if match[2] else corners[0]

    parts = re.split(r'("[^"]*")', formula)
    return "".join(part if part.startswith('"') else _CELLS.sub(replaced, part) for part in parts)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise FormulaError(f"cannot read {text[place : place + 20]!r} in the formula")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return tokens


_Range = list[Value]
"""The values of a range, empty ones included."""
_Term = Callable[[], Value | _Range]
"""Gives the value of a part of a formula, or raises FormulaError."""


@dataclass
class _Parser:
    rest: list[tuple[str, str]]
    read: Read
    cells: int = 0
    """Cells in the ranges so far."""

    COMPARE: ClassVar[Mapping[str, Callable[[Any, Any], bool]]] = {
        "=": operator.eq,
        "<>": operator.ne,
        "<": operator.lt,
        ">": operator.gt,
        "<=": operator.le,
        ">=": operator.ge,
    }
    """Of the keys of :func:`_compared`."""

    def comparison(self, depth: int) -> _Term:
        left = self._sum(depth)
        if (sign := self._sign(*self.COMPARE)) is None:
            return left
        right, holds = self._sum(depth), self.COMPARE[sign]
        return lambda: float(holds(*_compared(_single(left()), _single(right()))))

    def _sum(self, depth: int) -> _Term:
        left = self._product(depth)
        while (sign := self._sign("+", "-")) is not None:
            left = partial(_calculated, left, sign, self._product(depth))
        return left

    def _product(self, depth: int) -> _Term:
        left = self._signed(depth)
        while (sign := self._sign("*", "/")) is not None:
            left = partial(_calculated, left, sign, self._signed(depth))
        return left

    def _signed(self, depth: int) -> _Term:
        factor, signed = 1.0, False
        while (sign := self._sign("-", "+")) is not None:
            factor, signed = (-factor if sign == "-" else factor), True
        value = self._atom(depth)
        return (lambda: factor * _number(value())) if signed else value

    def _atom(self, depth: int) -> _Term:
        if depth > DEEPEST:
            raise FormulaError(f"a formula has at most {DEEPEST} brackets within brackets")
        kind, text = self._next()
        if kind == "number":
            return lambda: float(text)
        if kind == "text":
            return lambda: text[1:-1]
        if kind == "cell":
            return self._cells(text)
        if kind == "name":
            self._expect("(")
            return self._function(text.upper(), depth + 1)
        if text == "(":
            found = self.comparison(depth + 1)
            self._expect(")")
            return found
        raise FormulaError(f"unexpected {text!r} in the formula")

    def _cells(self, first: str) -> _Term:
        start = _at(first)
        if self._sign(":") is None:
            return lambda: self._value(start)
        kind, text = self._next()
        if kind != "cell":
            raise FormulaError(f"expected a cell after {first}:, got {text!r}")
        places = _between(start, _at(text))
        self.cells += len(places)
        if self.cells > MAX_CELLS:
            raise FormulaError(f"the ranges of a formula have at most {MAX_CELLS} cells")
        return lambda: [self._value(place) for place in places]

    def _value(self, place: Place) -> Value:
        value = self.read(*place)
        if value == BROKEN:
            raise FormulaError(f"{name(*place)} has no value")
        return value

    def _function(self, function: str, depth: int) -> _Term:
        arguments: list[_Term] = []
        while self._sign(")") is None:
            if arguments:
                self._expect(",")
            arguments.append(self.comparison(depth))
        if function in FUNCTIONS:
            return lambda: _finite(FUNCTIONS[function](_numbers(argument() for argument in arguments)))
        if function == "ROUND" and len(arguments) == 2:
            number, digits = arguments
            return lambda: _rounded(_number(number()), int(max(-9.0, min(9.0, _number(digits())))))
        if function == "IF" and len(arguments) == 3:
            condition, then, otherwise = arguments
            return lambda: _single((then if _number(condition()) else otherwise)())
        raise FormulaError(
            f"{function} with {len(arguments)} arguments is no function; there are {', '.join(FUNCTIONS)}, "
            "ROUND(number, digits) and IF(condition, then, else)"
        )

    def _next(self) -> tuple[str, str]:
        if not self.rest:
            raise FormulaError("the formula ends too early")
        return self.rest.pop(0)

    def _sign(self, *signs: str) -> str | None:
        """Consume the next sign if it is one of these."""
        if self.rest and self.rest[0][0] == "sign" and self.rest[0][1] in signs:
            return self.rest.pop(0)[1]
        return None

    def _expect(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise FormulaError(f"expected {sign!r} in the formula")


def _between(corner: Place, opposite: Place) -> list[Place]:
    """The cells of the rectangle with these corners."""
    (top, bottom), (left, right) = (sorted((corner[axis], opposite[axis])) for axis in (0, 1))
    return [(y, x) for y in range(top, bottom + 1) for x in range(left, right + 1)]


def _at(cell: str) -> Place:
    place = position(cell)
    if place is None:
        raise FormulaError(f"{cell!r} is no cell")
    return place


def _compared(left: Value, right: Value) -> tuple[object, object]:
    """Sort keys of two values; what is empty counts as 0 beside a number, as in calculations."""
    if isinstance(left, float) != isinstance(right, float):
        left, right = (0.0 if value == "" else value for value in (left, right))
    return order(left), order(right)


def _calculated(left: _Term, sign: str, right: _Term) -> float:
    first, second = _number(left()), _number(right())
    if sign == "/" and second == 0:
        raise FormulaError("division by zero")
    return _finite(_CALCULATE[sign](first, second))


def _numbers(values: Iterable[Value | _Range]) -> list[float]:
    """The numbers among values and in ranges."""
    flat = (each for value in values for each in (value if isinstance(value, list) else [value]))
    return [value for value in flat if isinstance(value, float)]


def _single(value: Value | _Range) -> Value:
    if isinstance(value, list):
        raise FormulaError("a range must stand in a function, such as SUM(B2:B9)")
    return value


def _number(value: Value | _Range) -> float:
    single = _single(value)
    if isinstance(single, float):
        return single
    if single == "":
        return 0.0
    raise FormulaError(f"{single[:40]!r} is not a number")


def _rounded(number: float, digits: int) -> float:
    """A number to some digits after the point; halves go away from zero, as in spreadsheets and not as in Python."""
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT))


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise FormulaError("the result is too large")
    return number


def order(value: Value) -> tuple[int, Value]:
    """A sort key: numbers before text, text without case."""
    return (0, value) if isinstance(value, float) else (1, value.lower())
