"""What travels to the nodes of a cluster: the code, and which packages it needs."""
