"""Every question to the store, as a SELECT and the record that answers it."""
