"""Search for best labellings where no recursion finds them."""
