"""What is known about dynamic dimensions: where sizes come from, which sizes ops require, and emitters for them."""
