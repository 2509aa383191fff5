"""One loss a file: pure functions of tensors."""
