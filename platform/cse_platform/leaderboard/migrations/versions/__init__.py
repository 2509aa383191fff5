"""One file a step. A step that has shipped is never edited."""
