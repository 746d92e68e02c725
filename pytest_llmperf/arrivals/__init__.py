"""arrivals."""
