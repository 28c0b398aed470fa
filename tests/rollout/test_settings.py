"""The rules of an episode, from Python, a mapping and OmegaConf."""

import json
from dataclasses import asdict

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.rollout.settings import Context, RolloutSettings, Style


def test_choices_are_given_as_members_or_texts():
    settings = RolloutSettings(style="compact", action_format="code_as_action", context="window")
    assert settings == RolloutSettings(
        style=Style.compact, action_format=ActionFormat.code_as_action, context=Context.window
    )
    assert json.loads(json.dumps(asdict(settings)))["context"] == "window"
    assert RolloutSettings.from_mapping(asdict(settings)) == settings


def test_omegaconf_reads_the_texts_of_a_recipe():
    config = OmegaConf.merge(OmegaConf.structured(RolloutSettings), {"style": "compact", "context": "summary"})
    assert OmegaConf.to_object(config) == RolloutSettings(style=Style.compact, context=Context.summary)
    assert OmegaConf.create(OmegaConf.to_yaml(config)).action_format == "react"
    with pytest.raises(ValidationError):
        OmegaConf.merge(config, {"context": "half"})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"style": "loud"}, "style 'loud' is unknown; choose agentgym, compact"),
        ({"context": "half"}, "rollout.context 'half' is unknown; choose full, window, fold, summary"),
        ({"thinking": "half"}, "rollout.thinking 'half' is unknown; choose keep, strip"),
        ({"action_format": "morse"}, "action_format 'morse' is unknown; choose react"),
        ({"max_new_tokens": 0}, "rollout.max_new_tokens must be greater than 0"),
        ({"step_seconds": -1.0}, "rollout.step_seconds must be greater than 0"),
        ({"max_turns": 0}, "max_turns is 0; give at least 1"),
        ({"invalid_limit": 0}, "invalid_limit is 0; give at least 1"),
        ({"retries": -1}, "retries must not be negative"),
        ({"turns": 4}, "unknown rollout settings"),
    ],
)
def test_what_is_out_of_range_is_told(values, says):
    with pytest.raises(ValueError, match=says):
        RolloutSettings.from_mapping(values)
