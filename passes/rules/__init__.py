"""What each op is."""
