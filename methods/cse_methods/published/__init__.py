"""The hyperparameters that each paper published and searched, one table a method."""
