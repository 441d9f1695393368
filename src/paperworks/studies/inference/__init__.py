"""Studies of the methods in `paperworks.inference`."""
