"""verl's engine on a CPU: a platform plugin, nothing of which is active where an accelerator is used."""
