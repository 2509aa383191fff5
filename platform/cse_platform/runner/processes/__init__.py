"""Ray, started or joined, and the process in which a trial runs."""
