"""What pyspark calls summaries: metrics of a model on the rows that it was fitted to."""
