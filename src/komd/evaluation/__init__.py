"""How good models are: metrics, evaluation of one model, comparison of several."""
