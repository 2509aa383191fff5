"""The built-in corpus and data sets, drawn from a small grammar."""
