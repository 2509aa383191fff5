"""The only import of Optuna: studies, samplers, pruners and distributions."""
