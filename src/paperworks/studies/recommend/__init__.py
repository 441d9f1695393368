"""Studies of the methods in `paperworks.recommend`."""
