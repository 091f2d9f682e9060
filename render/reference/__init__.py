"""The stages in plain torch: the text to read first, and the witness that tests compare with."""
