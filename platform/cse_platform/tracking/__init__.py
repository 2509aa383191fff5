"""The journal and its events, the recorder that fills the stores from it, and provenance."""
