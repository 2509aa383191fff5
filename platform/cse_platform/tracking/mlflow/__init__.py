"""The only import of MLflow: the mirror of the journal, the model registry, and reading runs."""
