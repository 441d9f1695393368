"""Studies of the methods in `paperworks.bayes`."""
