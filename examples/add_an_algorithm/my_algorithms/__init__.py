"""Three algorithms of an installed package."""
