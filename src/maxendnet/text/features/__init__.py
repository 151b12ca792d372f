"""Token features: templates and word forms."""
