"""Fits on Spark beside those of `pyspark.ml`."""
