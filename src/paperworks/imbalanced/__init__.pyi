from .immax import ImmaxClassifier as ImmaxClassifier
from .immax import ImmaxLoss as ImmaxLoss
from .immax import class_margin_loss as class_margin_loss
from .immax import class_sensitive_rademacher as class_sensitive_rademacher
from .immax import optimal_margins as optimal_margins
