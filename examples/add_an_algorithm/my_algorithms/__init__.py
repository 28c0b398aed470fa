"""Algorithms of an installed package."""
