"""What people say to sweeps from elsewhere: requests, and annotations."""
