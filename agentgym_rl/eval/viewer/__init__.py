"""Episodes as a page: served from this machine, or exported as a folder that needs nothing else."""
