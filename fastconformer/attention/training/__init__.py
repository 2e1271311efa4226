"""What an attention decoder learns: its targets and its loss."""
