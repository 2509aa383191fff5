"""Everything that imports MLflow: the mirror of the journal, the model registry, reading runs."""
