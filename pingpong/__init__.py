"""What a message between MPI ranks costs: kernels, the instrument that times them, and the texts."""

__version__ = "0.1.0"
