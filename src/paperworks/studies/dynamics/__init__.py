"""Studies of the methods in `paperworks.dynamics`."""
