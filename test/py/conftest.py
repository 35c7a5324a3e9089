"""Eight devices, all of them this CPU, for programs of several; JAX reads this when it starts."""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
