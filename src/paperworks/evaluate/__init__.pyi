from .amortized_irt import AdaptiveTest as AdaptiveTest
from .amortized_irt import AmortizedIRT as AmortizedIRT
from .amortized_irt import DifficultyConditionedGenerator as DifficultyConditionedGenerator
from .amortized_irt import RaschModel as RaschModel
from .amortized_irt import embed_texts as embed_texts
from .amortized_irt import empirical_reliability as empirical_reliability
from .amortized_irt import response_matrix as response_matrix
