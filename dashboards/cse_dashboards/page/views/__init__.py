"""The views of the page, one per file: each reads an address and renders a template."""
