"""SearchQA with a corpus, a search engine or official questions of the user's."""

import asyncio
import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from agentgym_rl.envs import Task, progress
from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, OracleUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.searchqa import SearchQA, articles
from agentgym_rl.envs.searchqa import corpus as corpora
from agentgym_rl.envs.searchqa.corpus import build, load, open_corpus
from agentgym_rl.envs.searchqa.official import RANGES, SOURCES

PASSAGES = [
    '"Aare"\nThe Aare rises in the Bernese Alps. It is 288 km long.',
    '"Łódź"\nŁódź is a city. It lies in Poland.',
    '"Reuss"\nThe Reuss is a river. It is 164 km long.',
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A corpus of three passages, and the folder of its index."""
    folder = tmp_path_factory.mktemp("corpus")
    path = folder / "wiki.jsonl"
    lines = [json.dumps({"id": str(i), "contents": text}, ensure_ascii=i == 0) for i, text in enumerate(PASSAGES)]
    path.write_text("\n".join(lines), encoding="utf-8")  # no line end after the last
    assert build(path, folder / "index") == len(PASSAGES)
    return path, folder / "index"


class Stub(BaseHTTPRequestHandler):
    """Search-R1's API over :data:`PASSAGES`; some queries make trouble."""

    def do_POST(self) -> None:
        posted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        assert isinstance(server, StubServer)
        server.asked.append((self.path, posted))
        query = posted["queries"][0]
        if query == "wait":
            server.over.wait(20)
        if query == "hang up":
            self.connection.close()
            return
        status = {"busy": 503, "unfit": 422}.get(query, 200)
        hits: list[Any] = [{"document": {"id": "0", "contents": text}, "score": 1.0} for text in PASSAGES]
        answers = {"prose": b"no JSON", "list": b"[]", "no hit": b'{"result": []}', "no text": b'{"result": [[{}]]}'}
        body = answers.get(query, json.dumps({"result": [hits]}).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class StubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Stub)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[StubServer]:
    stub = StubServer()
    thread = threading.Thread(target=stub.serve_forever, args=(0.02,))
    thread.start()
    yield stub
    stub.over.set()
    stub.shutdown()
    thread.join()
    stub.server_close()


def search(env: SearchQA, query: str) -> str:
    """The result of a search."""

    async def ask() -> str:
        await env.reset(Task("searchqa", next(iter(env.spec.splits["test"]))))
        return (await env.step(f"<search> {query} </search>")).observation.text

    return asyncio.run(ask())


def questions(folder: Path, test: list[Any], train: list[Any], ending: str = "jsonl") -> Path:
    """A folder with official questions."""
    folder.mkdir(exist_ok=True)
    for split, rows in (("test", test), ("train", train)):
        path = folder / f"{split}.{ending}"
        if ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        else:
            pyarrow = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    return folder


FLASHRAG = {"id": "test_0", "question": "which river is\nlonger", "golden_answers": ["Aare", "the Aare"]}
SEARCH_R1 = {
    "id": "train_0",
    "question": "where is Łódź?",
    "golden_answers": ["somewhere"],
    "data_source": "popqa",
    "prompt": [{"role": "user", "content": "..."}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Poland"]}},
}


def test_search_in_a_corpus(corpus: tuple[Path, Path]) -> None:
    env = SearchQA(corpus=corpus[0], index=corpus[1])
    assert search(env, "long river?") == (
        '<information>Doc 1(Title: "Reuss") The Reuss is a river. It is 164 km long.\n'
        'Doc 2(Title: "Aare") The Aare rises in the Bernese Alps. It is 288 km long.</information>'
    )
    compact = SearchQA("compact", corpus=str(corpus[0]), index=str(corpus[1]), topk=1)
    assert search(compact, "ŁÓDŹ lies") == "Łódź: It lies in Poland."
    assert env.spec.deterministic


def test_passages_are_read_where_they_lie(corpus: tuple[Path, Path]) -> None:
    _, contents = load(*corpus)
    assert [contents(number) for number in range(3)] == PASSAGES
    with pytest.raises(IndexError):
        contents(3)


@pytest.mark.slow
def test_the_articles_as_a_corpus_answer_like_the_built_in_ones(tmp_path: Path) -> None:
    path = tmp_path / "articles.jsonl"
    written = articles.write(path)
    process = subprocess.run(
        [sys.executable, "-m", "agentgym_rl.envs.searchqa", str(path), str(tmp_path / "index")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{written} passages indexed" in process.stdout
    env = SearchQA(corpus=path, index=tmp_path / "index")
    for query in ("Malmok country", "river founded", "city"):
        assert search(env, query) == search(SearchQA(), query)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", r"line 2: not JSON"),
        ("[]", r"line 2: has no 'contents' with text"),
        ('{"contents": 3}', r"line 2: has no 'contents' with text"),
    ],
)
def test_a_line_that_is_no_passage_is_named(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(f'{{"contents": "a"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        build(path, tmp_path / "index")
    with pytest.raises(ValueError, match=r"no index in .*; build it with: python -m agentgym_rl\.envs\.searchqa "):
        SearchQA(corpus=path, index=tmp_path / "index")


def test_corpus_and_index_must_belong_together(corpus: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no corpus at"):
        SearchQA(corpus=tmp_path / "none.jsonl", index=corpus[1])
    with pytest.raises(ValueError, match="no corpus at"):
        build(tmp_path / "none.jsonl", tmp_path / "index")
    other = tmp_path / "other.jsonl"
    other.write_text('{"contents": "stone"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="is of another corpus"):
        open_corpus(str(other), str(corpus[1]))
    build(other, tmp_path / "old")
    about = json.loads((tmp_path / "old" / "corpus.json").read_text())
    (tmp_path / "old" / "corpus.json").write_text(json.dumps(about | {"tokens": "words 0"}))
    with pytest.raises(ValueError, match="splits words as 'words 0'"):
        open_corpus(str(other), str(tmp_path / "old"))


def test_the_command_that_builds_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["searchqa", str(tmp_path / name), str(tmp_path / "index")])
        status = None
        try:
            runpy.run_module("agentgym_rl.envs.searchqa", run_name="__main__")
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    monkeypatch.setattr(progress, "LINE_S", 0.0)
    (tmp_path / "wiki.jsonl").write_text('{"contents": "a long river"}\n' * 1000)
    assert run("wiki.jsonl") == (
        None,
        f"1000 passages indexed in {tmp_path / 'index'}\n",
        "  0:00 reading wiki.jsonl, MB: 0 of 0 for 0 s\n",
    )
    status, out, err = run("none.jsonl")
    assert (status, out) == (2, "") and "error: no corpus at" in err
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "bm25s", None)
        assert "pip install 'agentgym-rl[searchqa]'" in run("wiki.jsonl")[2]
    monkeypatch.setattr(corpora, "_contents", Mock(side_effect=KeyboardInterrupt))
    assert run("wiki.jsonl") == (130, "", "stopped; the same command begins again\n")


def test_search_engine_at_an_address(server: StubServer) -> None:
    env = SearchQA(url=server.url, topk=2)
    assert search(env, "long river").startswith('<information>Doc 1(Title: "Aare") The Aare rises')
    assert search(env, "long river").count("Doc ") == 2  # though the engine sent three
    assert server.asked[0] == ("/retrieve", {"queries": ["long river"], "topk": 2, "return_scores": True})
    search(SearchQA(url=f"{server.url}/other/path"), "x" * 2000)
    assert server.asked[-1][0] == "/other/path"
    assert server.asked[-1][1]["queries"] == ["x" * 1000]
    assert not env.spec.deterministic


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        ("busy", EnvUnavailable, "answered 503"),
        ("unfit", ProtocolError, "answered 422"),
        ("hang up", EnvUnavailable, "Server disconnected"),
        ("prose", ProtocolError, "not as Search-R1's API does"),
        ("list", ProtocolError, "not as Search-R1's API does"),
        ("no hit", ProtocolError, "not as Search-R1's API does"),
        ("no text", ProtocolError, "not as Search-R1's API does"),
        ("wait", EnvTimeout, r"no answer within 0.2 s"),
    ],
)
def test_trouble_at_the_address(server: StubServer, query: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        search(SearchQA(url=server.url, timeout=0.2 if query == "wait" else 10), query)


def test_nobody_at_the_address() -> None:
    stub = StubServer()
    stub.server_close()
    with pytest.raises(EnvUnavailable, match="Cannot connect"):
        search(SearchQA(url=stub.url), "anything")


def test_one_slow_search_does_not_hold_up_another(server: StubServer) -> None:
    async def both() -> list[str]:
        slow, quick = SearchQA(url=server.url), SearchQA(url=server.url)
        for env in (slow, quick):
            await env.reset(Task("searchqa", 300_000))
        order = []

        async def ask(env: SearchQA, query: str) -> None:
            await env.step(f"<search> {query} </search>")
            order.append(query)
            server.over.set()

        await asyncio.gather(ask(slow, "wait"), ask(quick, "quick"))
        return order

    assert asyncio.run(both()) == ["quick", "wait"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_official_questions(tmp_path: Path, corpus: tuple[Path, Path], ending: str) -> None:
    folder = questions(tmp_path / "q", [FLASHRAG, FLASHRAG], [SEARCH_R1], ending)
    env = SearchQA(questions=folder, corpus=corpus[0], index=corpus[1])
    assert env.spec.splits == {"train": range(51_713, 51_714), "test": range(2)}
    assert env.goal(Task("searchqa", 1)) == "which river is longer"
    assert [env.difficulty(Task("searchqa", index)) for index in (0, 51_713)] == ["nq", "popqa"]

    async def answer(index: int, text: str) -> float:
        await env.reset(Task("searchqa", index))
        return (await env.step(f"<answer>{text}</answer>")).reward

    assert asyncio.run(answer(0, "Aare.")) == 1.0
    assert asyncio.run(answer(51_713, "poland")) == 1.0
    assert asyncio.run(answer(51_713, "somewhere")) == 0.0
    for index in (2, 51_714, 300_000):
        with pytest.raises(TaskNotFound, match=r"searchqa has no task .*: valid are 0 to 1 and 51713 to 51713"):
            env.goal(Task("searchqa", index))
    with pytest.raises(OracleUnavailable):
        env.oracle(Task("searchqa", 0))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([], "row 2: expected an object, found list"),
        ({"golden_answers": ["a"]}, "row 2: has no 'question'"),
        ({"question": "q"}, "row 2: golden answers are None"),
        ({"question": "q", "golden_answers": []}, "row 2: golden answers are"),
        ({"question": "q", "golden_answers": [3]}, "row 2: golden answers are"),
        ({"question": "q", "reward_model": {"ground_truth": "a"}}, "row 2: 'reward_model' has no 'ground_truth'"),
    ],
)
def test_a_row_that_is_no_question_is_named(tmp_path: Path, row: Any, fault: str) -> None:
    folder = questions(tmp_path / "q", [FLASHRAG, row], [SEARCH_R1])
    with pytest.raises(ValueError, match=rf"test\.jsonl, {fault}"):
        SearchQA(questions=folder, url="http://127.0.0.1:9")


def test_files_that_are_no_questions(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9"
    with pytest.raises(ValueError, match=r"neither .*test\.parquet nor .*test\.jsonl exists"):
        SearchQA(questions=tmp_path, url=url)
    (tmp_path / "test.jsonl").write_text("")
    with pytest.raises(ValueError, match="has no question"):
        SearchQA(questions=tmp_path, url=url)
    (tmp_path / "test.jsonl").write_text("nonsense\n")
    with pytest.raises(ValueError, match="line 1: not JSON"):
        SearchQA(questions=tmp_path, url=url)
    pytest.importorskip("pyarrow")
    (tmp_path / "test.parquet").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a parquet file"):
        SearchQA(questions=tmp_path, url=url)


def test_ranges_of_the_data_sets_are_whole() -> None:
    ranges = list(SOURCES.values())
    assert [each.start for each in ranges] == [0, *(each.stop for each in ranges[:-1])]
    assert (RANGES["test"], RANGES["train"]) == (range(51_713), range(51_713, 221_328))
    assert ranges[6].stop == RANGES["train"].start and ranges[-1].stop == RANGES["train"].stop
