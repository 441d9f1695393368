"""Studies of the methods in `paperworks.evaluate`."""
