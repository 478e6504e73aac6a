"""What the driver does: it checks columns, starts the job of one gang of tasks, and ends it."""
