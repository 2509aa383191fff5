"""What a sweep runs next, and what it must not run any longer."""
