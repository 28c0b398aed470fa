"""Learning in words: a model gets a playbook, and its weights stay."""
