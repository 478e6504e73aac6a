"""How training over ranks scales: passes and rounds, bytes and time."""
