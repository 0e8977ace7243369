"""Trained models: for prediction, further learning and storage."""
