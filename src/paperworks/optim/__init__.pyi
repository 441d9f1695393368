from .pareto_family import MOVAE as MOVAE
from .pareto_family import ExponentialFamily as ExponentialFamily
from .pareto_family import Front as Front
from .pareto_family import Member as Member
from .pareto_family import ParetoFamily as ParetoFamily
from .pareto_family import Solution as Solution
from .pareto_family import fit_movae as fit_movae
