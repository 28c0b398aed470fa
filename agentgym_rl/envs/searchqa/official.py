"""Official questions: the rows of Search-R1 and FlashRAG, numbered as AgentGym numbers them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym_rl.envs.searchqa.question import Question
from agentgym_rl.envs.splits import Splits
from agentgym_rl.envs.tables import batches, parquet_file, read_jsonl

RANGES: Mapping[str, range] = {"test": range(51_713), "train": range(51_713, 221_328)}
"""AgentGym's indices of each split."""

SOURCES: Mapping[str, range] = {
    "nq": range(0, 3_610),
    "triviaqa": range(3_610, 14_923),
    "popqa": range(14_923, 29_190),
    "hotpotqa": range(29_190, 36_595),
    "2wikimultihopqa": range(36_595, 49_171),
    "musique": range(49_171, 51_588),
    "bamboogle": range(51_588, 51_713),
    "nq (train)": range(51_713, 130_881),
    "hotpotqa (train)": range(130_881, 221_328),
}
"""AgentGym's indices of each data set, for rows that do not name it."""

_COLUMNS = ("question", "golden_answers", "reward_model", "data_source")


class Official:
    """The questions of a folder.

    Args:
        rows: the questions of each split.
    """

    def __init__(self, rows: Mapping[str, Sequence[Question]]) -> None:
        self._rows = rows
        ranges = {split: RANGES[split][: len(rows[split])] for split in ("train", "test")}
        self.splits = Splits("searchqa", ranges)

    def question(self, index: int) -> Question:
        split, place = self.splits.locate(index)
        return self._rows[split][place]

    def difficulty(self, index: int) -> str:
        """The data set that the question is from."""
        return self.question(index).source


@lru_cache(maxsize=4)
def open_questions(folder: str) -> Official:
    """Read ``test`` and ``train`` of a folder, each ``.parquet`` or ``.jsonl``. The sessions of a process share them.

    A row needs ``question`` and either ``reward_model.ground_truth.target`` or ``golden_answers``; ``data_source`` is
    its difficulty.

    Raises:
        MissingExtra: a parquet file needs pyarrow.
        ValueError: a file is missing, or a row is malformed; names file, row (from 1) and fault.
    """
    return Official({split: _read(Path(folder), split) for split in RANGES})


def _read(folder: Path, split: str) -> list[Question]:
    paths = [folder / f"{split}{ending}" for ending in (".parquet", ".jsonl")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise ValueError(f"no questions: neither {paths[0]} nor {paths[1]} exists")
    rows = _parquet(path) if path.suffix == ".parquet" else read_jsonl(path)
    numbered = RANGES[split]
    questions: list[Question] = []
    for number, row in enumerate(rows, start=1):
        if number > len(numbered):
            raise ValueError(f"{path} has more than the {len(numbered)} questions that AgentGym numbers as {split}")
        try:
            questions.append(_question(row, numbered[number - 1]))
        except ValueError as error:
            raise ValueError(f"{path}, row {number}: {error}") from error
    if not questions:
        raise ValueError(f"{path} has no question")
    return questions


def _question(row: Any, index: int) -> Question:
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, found {type(row).__name__}")
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("has no 'question'")
    answers = row.get("golden_answers")
    if row.get("reward_model") is not None:
        try:
            answers = row["reward_model"]["ground_truth"]["target"]
        except (KeyError, TypeError) as error:
            raise ValueError("'reward_model' has no 'ground_truth' with a 'target'") from error
    if isinstance(answers, str):
        answers = [answers]
    if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise ValueError(f"golden answers are {answers!r}, not a list of texts")
    source = row.get("data_source") or next(name for name, indices in SOURCES.items() if index in indices)
    return Question(" ".join(text.split()), tuple(answers), str(source))


def _parquet(path: Path) -> Iterator[Any]:
    with parquet_file(path) as file:
        columns = [name for name in file.schema_arrow.names if name in _COLUMNS]
        for batch in batches(path, file, columns):
            yield from batch.to_pylist()
