"""Hyperparameter tuning on validation data, with the same budget for every method."""
