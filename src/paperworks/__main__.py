"""``python -m paperworks`` is the command ``paperworks``."""

from paperworks.cli import main

main()
