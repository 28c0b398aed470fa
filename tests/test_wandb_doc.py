"""docs/wandb.md names every metric that the code logs under a name of ours."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAMILIES = (
    "agentevol|credit|curriculum|dart|diagnostics|distill|dpo|env|errors|frontier|guided|inspo|mixture|prm|restarts|rollout|run"
    "|search|shaping|stage|supervised|sync|val"
)
NAME = re.compile(rf'"((?:{FAMILIES})/[a-z_/{{}}]*[a-z}}])"')


def logged():
    found = set()
    for layer in ("algorithms", "engine"):
        for file in (ROOT / "agentgym_rl" / layer).rglob("*.py"):
            found |= set(NAME.findall(file.read_text(encoding="utf-8")))
    return sorted({re.sub("^stage/.*", "stage/<stage>", re.sub(r"{(env|key|kind)}", r"<\1>", name)) for name in found})


@pytest.mark.parametrize("name", logged())
def test_every_metric_is_documented(name):
    assert f"`{name}`" in (ROOT / "docs" / "wandb.md").read_text(encoding="utf-8")
