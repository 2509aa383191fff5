"""Sweeps that are submitted to a cluster: handed over there, and run there as a job."""
