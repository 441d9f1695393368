"""Data sets by name, the user's own files, and one rule for turning columns into numbers.

`load` gives a data set by its registered name or by the reference of an own file; `names` and `info` say what there
is; `own_file` reads and checks a file of the user; `tabular_encoder` turns mixed columns into numbers.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
