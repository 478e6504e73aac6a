"""Losses with corners by a primal-dual interior point method, on the rows near their corners."""
