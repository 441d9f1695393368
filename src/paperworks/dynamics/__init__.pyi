from .quanonet import HEAQNN as HEAQNN
from .quanonet import QuanONet as QuanONet
from .quanonet import QuanONetRegressor as QuanONetRegressor
from .quanonet import depolarize as depolarize
from .quanonet import hamiltonian_spectrum as hamiltonian_spectrum
