"""The board: which configurations it shows, their scores, ranks and comparisons."""
