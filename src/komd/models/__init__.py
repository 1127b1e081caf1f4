"""Models: one file for each method, one face for all."""
