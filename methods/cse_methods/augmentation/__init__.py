"""Views of a sentence, as pure functions: what is drawn is an argument."""
