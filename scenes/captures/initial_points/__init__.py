"""Points from which primitives are initialised, of captures that have poses but no points."""
