"""Large dense products on CPUs: the passes flat_products and products_in_tiles, and their files matrices and tiles."""
