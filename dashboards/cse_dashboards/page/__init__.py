"""The page in the browser: Flask, server-rendered, its state in the address."""
