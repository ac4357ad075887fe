"""A malicious client: probes, estimates of a state, recoveries, strategies, and the theory of all of them."""
