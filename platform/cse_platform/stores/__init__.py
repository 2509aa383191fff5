"""The views of the journals, each made again from them at any time."""
