"""Evaluation: panels of tasks, rules, results, and how two results differ."""
