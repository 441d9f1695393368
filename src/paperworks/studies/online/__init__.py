"""Studies of the methods in `paperworks.online`."""
