"""Analysis of dynamic dimensions: where sizes come from, which sizes ops require, and emitters of sizes."""
