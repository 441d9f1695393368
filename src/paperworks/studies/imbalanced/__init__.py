"""Studies of the methods in `paperworks.imbalanced`."""
