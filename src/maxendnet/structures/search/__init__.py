"""Search for best labellings without a recursion."""
