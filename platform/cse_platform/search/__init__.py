"""The only import of Optuna: the study of a sweep, and its rooms for what acts on that."""
