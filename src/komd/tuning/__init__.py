"""Tuning: searches the parameters of a model on folds inside the training data."""
