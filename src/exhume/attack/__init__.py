"""A malicious client: probes, identification, recovery, replay, and the bounds on all of them."""
