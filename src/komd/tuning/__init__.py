"""Finding the parameters of a model by trying them on folds made inside the training data."""
