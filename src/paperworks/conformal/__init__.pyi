from .cojer import CoJER as CoJER
from .cojer import cojer_threshold as cojer_threshold
from .cojer import dkw_deviation as dkw_deviation
from .cojer import false_coverage_proportion as false_coverage_proportion
from .cojer import joint_error_rate as joint_error_rate
from .cojer import sample_conformal_ranks as sample_conformal_ranks
