"""Second derivatives: exact, sampled or approximate."""
