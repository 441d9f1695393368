"""Studies of the methods in `paperworks.optim`."""
