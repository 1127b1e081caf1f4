"""What every model shares: its data, ranking, results, saving and batches."""
