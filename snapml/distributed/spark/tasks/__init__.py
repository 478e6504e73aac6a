"""What tasks do: they hold their rows, meet each other, and fit as shards."""
