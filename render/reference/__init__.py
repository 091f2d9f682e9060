"""The stages in plain torch: the versions to read first, and the references that tests compare the kernels with."""
