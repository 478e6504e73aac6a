"""Linear models that train where a Spark DataFrame is, with the parameters of `pyspark.ml`."""
