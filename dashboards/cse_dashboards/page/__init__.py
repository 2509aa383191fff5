"""The page in the browser: server-rendered by Flask, with its state in the URL."""
