"""Studies of the methods in `paperworks.clustering`."""
