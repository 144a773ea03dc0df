"""What moved, and what that proves."""
