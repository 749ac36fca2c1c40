"""What the server of peers imports once, before it forks a process for each job."""
import GOCPT.otf  # noqa: F401
import networkx  # noqa: F401
import numpy  # noqa: F401
import peers  # noqa: F401
import pyttb  # noqa: F401
import scipy.sparse  # noqa: F401
import sklearn.cluster  # noqa: F401
import sklearn.decomposition  # noqa: F401
import tensorly.decomposition  # noqa: F401
