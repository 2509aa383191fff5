"""The built-in corpus and data sets, generated from a small grammar."""
