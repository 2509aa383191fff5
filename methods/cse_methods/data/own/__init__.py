"""A lab's own scored sentence pairs: naming, reading and rescaling a file of them."""
