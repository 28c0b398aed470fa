"""Runs beside each other: arms, differences, costs and curves, as tables, a page and pictures."""
