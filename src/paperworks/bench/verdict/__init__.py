"""Judge the claims of a study: paired differences, their intervals, and what follows from them.

A claim compares a subject with a contender, or with a fixed number, on one metric. Trials of the two with the same
data set and the same seed form a pair; the effect of a pair is positive where the subject is better. The claim *holds*
if the whole 95 % interval of the mean effect lies beyond its threshold, *fails* if the whole interval lies short of it,
and is *inconclusive* otherwise. A claim that is false by a hair is thus called true in at most about 2.5 % of all
studies; a study holds only if every claim does, so that no correction for the number of claims is needed.

Trials of the subject that failed, or whose metric is undefined, count against it. Nothing is left out in silence: every
pair that does not enter as it was measured is in the notes.

References
----------
B. Efron (1987). Better bootstrap confidence intervals. Journal of the American Statistical Association 82, 171-185.
C. J. Clopper, E. S. Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the binomial.
Biometrika 26, 404-413.
S. Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, 65-70.
"""

from paperworks.bench.verdict.claims import MAX_IMPUTED, ClaimVerdict, StudyVerdict, Verdict, judge
from paperworks.bench.verdict.comparison import compare_runs
from paperworks.bench.verdict.intervals import MIN_PAIRS, Interval, mean_interval
from paperworks.bench.verdict.pairs import Pairs, paired_differences
from paperworks.bench.verdict.tables import forest_table, holm, pairwise_table, summary_table

__all__ = [
    "MAX_IMPUTED",
    "MIN_PAIRS",
    "ClaimVerdict",
    "Interval",
    "Pairs",
    "StudyVerdict",
    "Verdict",
    "compare_runs",
    "forest_table",
    "holm",
    "judge",
    "mean_interval",
    "paired_differences",
    "pairwise_table",
    "summary_table",
]
