"""Studies of the methods in `paperworks.causal`."""
