"""How long a sweep takes, and how much disk: before it runs, and while it does."""
