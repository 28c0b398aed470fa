"""Environments are found by entry point, and what is missing is said."""

import pytest
import toy

from agentgym_rl.envs import available, env_class, make
from agentgym_rl.envs.core import EnvError, MissingExtra, UnknownEnv


def test_a_world_of_another_package_is_found(toys):
    assert "counter" in available()
    assert available() == sorted(available())
    assert env_class("counter").__name__ == "Counter"
    assert make("counter", style="compact").style == "compact"


def test_own_worlds_are_listed():
    assert {"textcraft", "babyai", "maze"} <= set(available())


def test_unknown_world_lists_the_installed_ones(toys):
    with pytest.raises(UnknownEnv, match=r"unknown environment 'countre'; installed environments: .*counter"):
        make("countre")


def test_missing_extra_names_the_pip_command(toys):
    with pytest.raises(
        MissingExtra, match=r"needs the package 'a_package_nobody_has'.*pip install 'agentgym-rl\[needy\]'"
    ):
        env_class("needy")


def test_a_broken_plug_in_names_its_entry_point(toys):
    with pytest.raises(EnvError, match=r"environment 'broken': its entry point toy:Nothing .*Nothing"):
        env_class("broken")


def test_options_reach_the_world(toys):
    world = make("counter", hurry=True)
    assert isinstance(world, toy.Counter)
    assert world.hurry is True
    with pytest.raises(TypeError, match="speed"):
        make("counter", speed=3)
    with pytest.raises(ValueError, match="style 'loud' is unknown; choose agentgym or compact"):
        make("counter", style="loud")
