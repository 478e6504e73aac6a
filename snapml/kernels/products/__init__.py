"""Products with rows and with their transpose."""
