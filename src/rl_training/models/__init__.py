"""Network parts: encoders, bodies, critics, policies, distributions and normalizers."""
