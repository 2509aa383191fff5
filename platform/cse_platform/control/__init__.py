"""Takes what people send to sweeps from elsewhere: requests and annotations."""
