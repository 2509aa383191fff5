"""What figures need an encoder for: dev sentences under the kept models of trials."""
