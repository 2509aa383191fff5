"""The store: its tables, its schema and migrations, and how it is opened."""
