"""Playing panels: which tasks, by which rules, what came of them, and how two results differ."""
