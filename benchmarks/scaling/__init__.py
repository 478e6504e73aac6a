"""What ranks cost: sums, bytes, passes, and what they predict."""
