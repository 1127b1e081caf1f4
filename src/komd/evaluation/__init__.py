"""How good a model is: measures of ranking, computed while scoring."""
