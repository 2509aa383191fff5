"""Tasks named by a reference: those of mteb, and a lab's own files in their kinds."""
