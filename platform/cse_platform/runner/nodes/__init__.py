"""The nodes of a cluster: checked before they get trials, and which trials fit on them."""
