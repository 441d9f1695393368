"""Studies of the methods in `paperworks.conformal`."""
