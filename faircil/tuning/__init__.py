"""Choosing settings without the test data, with the same budget for every method."""
