"""One study per method: `paperworks/studies/<family>/<method>.py` defines ``STUDY``.

A study imports its method and the peers inside its functions, so that the list of all studies loads fast and
without extras.
"""
