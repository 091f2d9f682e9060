"""Compiling C++ and CUDA C++ at run time, against the maths that is installed with the package."""
