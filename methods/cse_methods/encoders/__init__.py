"""Pre-trained encoders: names, files, pooling, and what follows the pooler."""
