"""Columns packed out of rows, wherever these are, and the quadratic model's minimum on them."""
