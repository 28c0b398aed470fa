"""What hides faults has its reason beside it."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "agentgym_rl"
BROAD = {"Exception", "BaseException"}


def hides(node):
    """Whether it catches every exception, or takes a default for an attribute that may be misspelt."""
    if isinstance(node, ast.ExceptHandler):
        return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in BROAD)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) == 3


def test_broad_excepts_and_defaults_of_attributes_say_why():
    bare = []
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        bare += [
            f"{path.relative_to(PACKAGE)}:{node.lineno}"
            for node in ast.walk(ast.parse(source))
            if hides(node) and "  # " not in lines[node.lineno - 1]
        ]
    assert not bare, "write the reason as a comment on the line, or name the exception or the attribute"
