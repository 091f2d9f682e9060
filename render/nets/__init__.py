"""Networks with published weights, written in plain torch. One folder a network."""
