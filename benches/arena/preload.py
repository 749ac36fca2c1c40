"""What the server of peers does once, before it forks a process for each job: a tiny job of each method imports all."""
import contextlib
import warnings

import peers

warnings.simplefilter("ignore")
for method, call in peers.METHODS.items():
    with contextlib.suppress(Exception), contextlib.redirect_stdout(None):
        call(peers.small(method))
