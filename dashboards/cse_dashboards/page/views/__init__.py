"""The views of the page, one a file: an address in, a template with what was asked out."""
