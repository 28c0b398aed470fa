"""One run, from configuration to summary."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console

from agentgym_rl.algorithms.model import AS_LOADED, START
from agentgym_rl.data.overlap import Overlap, report
from agentgym_rl.engine.recipe import context, gpus, models, preflight
from agentgym_rl.engine.recipe.compose import identity, to_yaml
from agentgym_rl.engine.recipe.config import Device, TinyModelConfig
from agentgym_rl.engine.recipe.digest import code_of, digest, versions
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import to_dict
from agentgym_rl.engine.run import account, demonstrations, gpu_memory, memory, stage_models
from agentgym_rl.engine.run.folder import RunFolder, State
from agentgym_rl.engine.run.lock import locked
from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.engine.run.session import Session, variables
from agentgym_rl.engine.run.stop import Stop, on_signals
from agentgym_rl.engine.run.texts import open_writer, texts_of
from agentgym_rl.engine.verl.environment import added
from agentgym_rl.engine.verl.mapping import agent_loops, check_verl, verl_config
from agentgym_rl.eval.diagnosis import diagnose
from agentgym_rl.eval.reference import reference
from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.policies import Policy


def train(run: Resolved, console: Console, session: Session | None = None) -> Path:
    """Run or resume a run; returns its folder.

    Args:
        session: an engine shared with other runs; without one the run starts and stops its own.

    Raises:
        RecipeError, RunFolderError, FileNotFoundError, EnvError, ContextTooSmall, ValueError: found before Ray starts.
        LaunchFailed: the engine did not start.
        Interrupted: stopped by a signal or ``run.max_hours`` with everything saved.
    """
    preflight.check(run)
    check_verl(run)
    preflight.check_hosts(run)
    writer = open_writer(run)
    directory = Path(run.config.run.dir)
    with added(variables(run.config.engine)):  # which a run after it takes for the user's, where they stay
        run.ask_envs()
        with locked(directory), added(account.variables(directory)):
            return _locked(run, console, session, writer)


def _locked(run: Resolved, console: Console, session: Session | None, writer: Policy | None) -> Path:
    config = run.config
    folder = RunFolder(Path(config.run.dir), identity(config), config.run.resume, to_yaml(config))
    state = folder.load_state()
    if state.extend(run.algorithm.units, config.budget):
        folder.reopen(state)
    if folder.finished:
        console.print(
            f"{config.run.dir} holds this run, finished; choose another name or run.dir to run it again", soft_wrap=True
        )
        return folder.path
    state, remark = folder.whole(state)
    with Progress(console) as progress, _engine_log(folder.path / "engine.log"):
        progress.say(
            f"run folder {config.run.dir}" + (f", resumed at step {state.global_step}" if folder.resumed else "")
        )
        if remark is not None:
            progress.say(remark)
        model = _model(run, folder, progress)
        files = demonstrations.files(
            run, folder.path, lambda name, done, total: progress.bar(f"demonstrations: {name}", done, total)
        )
        with nullcontext(session) if session is not None else Session(several=False) as engine:
            _train(run, folder, state, model, files, progress, engine, writer)
    return folder.path


def _model(run: Resolved, folder: RunFolder, progress: Progress) -> str:
    """Folder, absolute because workers have another current one, or hub id of the policy to start from."""
    config = run.config
    if not isinstance(config.model, TinyModelConfig):
        path = pretrained.local(str(config.model.path), progress.bar)
        folder_of_model = Path(path).expanduser()
        return str(folder_of_model.resolve()) if folder_of_model.is_dir() else path
    from agentgym_rl.engine.run import tiny

    home = tiny.home(run, folder.path)
    if not home.is_dir():
        progress.say("building the tiny model")
        texts = asyncio.run(tiny.corpus(run, progress.bar))
        home.parent.mkdir(parents=True, exist_ok=True)
        tiny.build(home, config.model, texts, config.seed)
    return str(home.resolve())


def _train(
    resolved: Resolved,
    folder: RunFolder,
    state: State,
    model: str,
    files: dict[str, Path],
    progress: Progress,
    session: Session,
    writer: Policy | None,
) -> None:
    # verl takes seconds to import, so the recipe is checked before
    with progress.waiting("loading verl"):
        from verl.utils.config import validate_config
        from verl.utils.tokenizer import hf_tokenizer

        from agentgym_rl.engine.run.metrics_log import MetricsLog, read
        from agentgym_rl.engine.verl.network import largest_tensor, skeleton
        from agentgym_rl.rollout.builder import continuous_token_builder

    overlaps = resolved.overlaps(files)
    if line := report(overlaps):
        progress.say(line)
    network = skeleton(model)
    resolved, of_gpus = gpu_memory.fitted(resolved, network, gpus.smallest)
    config, needs = resolved.config, resolved.needs
    settings = verl_config(resolved, model, folder.path, largest_tensor(network))
    tokenizer = hf_tokenizer(model)
    if (template := settings.actor_rollout_ref.model.custom_chat_template) is not None:
        tokenizer.chat_template = template
    builder = continuous_token_builder(model, tokenizer, settings.data.apply_chat_template_kwargs)
    preflight.check_length(config, model)
    preflight.check_template(builder, [config.rollout.style])
    context.check_segments(resolved, builder)
    context.check_panels(resolved, builder, progress.bar)
    if state.left_out is None:
        state.left_out = context.too_long(resolved, builder, progress.bar, progress.say)
    preflight.check_layers(config.model, network.config.get_text_config().num_hidden_layers)
    preflight.check_adapters(config, network)
    models.check_alike(resolved, tokenizer, network, skeleton)
    stage_models.check(needs, state, folder)
    encoder = demonstrations.Encoder(resolved, tokenizer, builder)
    demonstrated, general = encoder.files(files), encoder.general(config.cloning.mix_file)
    validate_config(settings, use_reference_policy=False, use_critic=settings.critic.enable)
    OmegaConf.resolve(settings)
    log = MetricsLog(folder.path, to_dict(config), state.global_step, state.logged)
    try:
        stop = Stop(progress.say, config.run.stop_seconds, config.run.max_hours)
        with on_signals(stop):
            starts = {model.start for model in needs.swapped.values()}
            begins = config.run.control or START in starts
            base = needs.loaded_weights or AS_LOADED in starts or (begins and not config.cloning.epochs)
            if (plan := _plan(resolved)) is not None:
                progress.say(memory.report(plan, network))
            if of_gpus is not None:
                progress.say(of_gpus)
            with stop.at_once():
                trainer = session.trainer(settings, config.engine, progress, base=base)

            from agentgym_rl.engine.run.cache import ClonedCache  # these import verl's trainer, as the session did
            from agentgym_rl.engine.run.run import EngineRun
            from agentgym_rl.engine.run.stages import Stages
            from agentgym_rl.engine.verl.liveness import watched

            texts = texts_of(resolved, trainer, builder, writer=writer, spent=state.written, stop=stop)
            run = EngineRun(
                resolved=resolved, trainer=trainer, folder=folder, state=state, log=log,
                encoder=encoder, demonstrations=demonstrated, general=general, texts=texts,
                bar=progress.bar, say=progress.say, stop=stop,
            )  # fmt: skip
            cache = (
                None if config.run.cache is None else ClonedCache(Path(config.run.cache), digest(config, cloned=True))
            )
            with closing(texts), watched(trainer, alone=plan is not None) as watch:
                Stages(run, cache).complete()
        findings = diagnose(read(folder.path))
        summary = _summary(resolved, state, overlaps) | {"memory_gib": watch.peaks}
        summary["findings"] = [asdict(finding) for finding in findings]
        folder.write_summary(summary)
        for finding in findings:
            progress.say(str(finding))
        if state.errors:
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(state.errors.items()))
            progress.say(f"failed outside the agent: {kinds} (docs/faults.md)")
    finally:
        log.close()


def _plan(run: Resolved) -> memory.Plan | None:
    """The settings that determine memory; None on a GPU or a cluster, where it was not measured."""
    config, engine, needs = run.config, run.config.engine, run.needs
    if engine.device is not Device.CPU or engine.ray_address is not None:
        return None
    return memory.Plan(
        workers=engine.workers,
        servers=(engine.own_rollout_workers or engine.workers) // engine.tensor_parallel,
        loops=agent_loops(config),
        micro_tokens=max(engine.micro_tokens or 0, needs.rows_together * config.model.context),
        kv_cache_gib=engine.kv_cache_gib,
        train_layers=config.model.train_layers,
        lora_rank=config.model.lora_rank,
        bfloat16=engine.bfloat16,
        critic=needs.critic is not None,
        trained=sum(model.trained for model in needs.swapped.values()),
        others=len(needs.swapped),
    )


def _summary(run: Resolved, state: State, overlaps: dict[str, dict[str, Overlap]]) -> dict[str, Any]:
    config = run.config
    bounds: dict[str, Any] = {}
    for policy in ("random", "oracle"):
        for env, by_label in run.panels.items():
            rules = replace(run.rules, max_turns=run.max_turns(env))
            for label, panel in by_label.items():
                if not run.is_local(panel):
                    continue
                scored = asyncio.run(reference(panel, policy, rules, config.envs[env].options))
                if scored is not None:
                    bounds.setdefault(policy, {}).setdefault(label, {})[env] = scored.to_dict()
    return {
        "name": config.name,
        "algorithm": config.algorithm.name,
        "stages": state.results,
        "reference": bounds,
        "wall_s": round(state.wall_s, 1),
        "parser_faults": state.parser_faults,
        "errors": state.errors,
        "left_out": state.left_out,
        "seed": config.seed,
        "panels": {env: {label: panel.digest for label, panel in panels.items()} for env, panels in run.panels.items()},
        "overlaps": {
            env: {label: asdict(shared) for label, shared in by_panel.items()} for env, by_panel in overlaps.items()
        },
        "versions": versions(),
        "code": code_of(config),
    }


@contextmanager
def _engine_log(path: Path) -> Iterator[None]:
    """Output of verl, vLLM and Ray in this process goes to a file; with AGENTGYM_RL_DEBUG=1 to the terminal.

    So does what Python finds when the process exits: coroutines of the queue that waited for a process that died.
    """
    if os.environ.get("AGENTGYM_RL_DEBUG"):
        yield
        return
    atexit.unregister(_exit_log)
    atexit.register(_exit_log, path.resolve())
    with path.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        yield


def _exit_log(path: Path) -> None:
    if path.parent.is_dir():
        sys.stderr.flush()
        with path.open("a") as file:
            os.dup2(file.fileno(), 2)  # Python brings its own standard error back before it looks
