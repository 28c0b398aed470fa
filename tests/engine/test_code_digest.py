"""The digest of the code that trains."""

from pathlib import Path

import pytest

pytest.importorskip("hydra")

from agentgym_rl.engine.recipe import digest

SOURCE = '''"""Says what."""

class One:
    key: int = 1
    """Its meaning."""

    def two(self):
        return 2
'''


@pytest.fixture
def digest_of(tmp_path: Path):
    def of(text: str) -> str:
        file = tmp_path / str(hash(text)) / "code.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return digest._digest_of(file)

    return of


def test_comments_docstrings_and_layout_do_not_count(digest_of):
    bare = "class One:\n    key: int = 1  # a comment\n    def two(self):\n\n        return (2)\n"
    assert digest_of(SOURCE) == digest_of(bare)
    assert digest_of(SOURCE) != digest_of(SOURCE.replace("return 2", "return 3"))
    assert digest_of(SOURCE) != digest_of(SOURCE.replace("key: int = 1", 'key: str = "1"'))


@pytest.mark.slow
def test_code_of_other_environments_does_not_count():
    assert digest.code(["maze"]) == digest.code(["maze"]) != digest.code(["textcraft"])
    assert digest.code(["maze", "textcraft"]) == digest.code(["textcraft", "maze"])


def test_an_environment_of_others_counts_by_the_file_of_its_class(toys):
    assert digest._place_of("counter").name == "toy.py"
    assert digest._place_of("todo").parts[-2:] == ("envs", "tooluse")


def test_files_beside_training_do_not_count(monkeypatch):
    package = Path(digest.__file__).parents[2]
    beside, counted = {package / name for name in digest.BESIDE}, set()
    programs = package / "rollout/gateway/app.py"
    assert all(file.is_file() for file in (*beside, programs))
    monkeypatch.setattr(digest, "_digest_of", lambda file: counted.add(file) or file.name)
    digest.code(["maze"])
    assert package / "engine/run/run.py" in counted and not {*beside, programs} & counted
    digest.code(["maze"], programs=True)
    assert programs in counted and not beside & counted
